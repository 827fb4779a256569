// Splitting a loop over threads. Threads live for one call: nothing is left behind that a fork could break,
// and starting one costs about 20 microseconds, which `grain` keeps small beside its work.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

#include "dispatch.hpp"

namespace polyvec {

// Calls work(begin, end) on pieces that cover [0, n), each of at least `grain` items and beginning on a multiple
// of `step`, from at most `threads` threads, the calling one included. Threads take the next piece when they are
// done with one: on a shared machine a fixed split would wait for the slower core. Call it without the GIL; work
// must not throw.
template <class Work>
void parallel_for(std::size_t n, int threads, std::size_t grain, std::size_t step, const Work &work) {
    if (n == 0) return;
    const auto up = [](std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; };
    grain = std::max<std::size_t>(1, grain);
    step = std::max<std::size_t>(1, step);
    const std::size_t asked = static_cast<std::size_t>(std::max(1, threads));
    const std::size_t workers = std::clamp<std::size_t>(n / grain, 1, asked);
    // Sixteen pieces a thread keep the wait for the last one short, and are long enough for the prefetchers.
    const std::size_t piece = workers == 1 ? n : up(std::max(grain, n / workers / 16), step);
    std::atomic<std::size_t> next{0};
    const auto drain = [&] {
        const PlainFloats plain;
        for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) <= (n - 1) / piece;)
            work(i * piece, std::min(n, (i + 1) * piece));
        fence_streams();
    };
    std::vector<std::thread> started;
    started.reserve(workers);
    try {
        while (started.size() + 1 < workers) started.emplace_back(drain);
    } catch (const std::system_error &) {
        // No more threads to be had: those that there are do all of it.
    }
    drain();
    for (std::thread &thread : started) thread.join();
}

}  // namespace polyvec
