// Splitting a loop over threads. Threads live for one call: nothing is left behind that a fork could break,
// and starting one costs about 20 microseconds, which `grain` keeps small beside its work.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "dispatch.hpp"

namespace polyvec {

// How many threads parallel_for works with, the calling one included: work that gathers keeps a place for each.
inline std::size_t count_workers(std::size_t n, int threads, std::size_t grain) {
    const std::size_t asked = static_cast<std::size_t>(std::max(1, threads));
    return std::clamp<std::size_t>(n / std::max<std::size_t>(1, grain), 1, asked);
}

// Calls work(begin, end), or work(begin, end, worker), on pieces that cover [0, n), each of at least `grain` items and
// beginning on a multiple of `step`, from at most `threads` threads. Threads take the next piece when they are done
// with one: on a shared machine a fixed split would wait for the slower core. What a piece throws is thrown here when
// all have ended; pieces that have not begun are then left out. Call it without the GIL.
template <class Work>
void parallel_for(std::size_t n, int threads, std::size_t grain, std::size_t step, const Work &work) {
    if (n == 0) return;
    const auto up = [](std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; };
    const std::size_t workers = count_workers(n, threads, grain);
    // Sixteen pieces a thread keep the wait for the last one short, and are long enough for the prefetchers.
    const std::size_t least = std::max<std::size_t>({1, grain, n / workers / 16});
    const std::size_t piece = workers == 1 ? n : up(least, std::max<std::size_t>(1, step));
    const std::size_t pieces = (n - 1) / piece + 1;
    std::atomic<std::size_t> next{0};
    std::mutex failing;
    std::exception_ptr failure;
    const auto drain = [&](std::size_t worker) {
        const PlainFloats plain;
        try {
            for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
                const std::size_t begin = i * piece, end = std::min(n, begin + piece);
                if constexpr (std::is_invocable_v<const Work &, std::size_t, std::size_t, std::size_t>)
                    work(begin, end, worker);
                else
                    work(begin, end), (void)worker;
            }
        } catch (...) {
            next.store(pieces, std::memory_order_relaxed);
            const std::lock_guard lock(failing);
            if (!failure) failure = std::current_exception();
        }
        fence_streams();
    };
    std::vector<std::thread> started;
    started.reserve(workers);
    try {
        while (started.size() + 1 < workers) started.emplace_back(drain, started.size() + 1);
    } catch (const std::system_error &) {
        // No more threads to be had: those that there are do all of it.
    }
    drain(0);
    for (std::thread &thread : started) thread.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace polyvec
