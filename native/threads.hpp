// Splitting a loop over threads. Threads live for one call: nothing is left behind that a fork could break,
// and starting one costs about 20 microseconds, which `grain` keeps small beside its work.
#pragma once
#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

#include "dispatch.hpp"

namespace polyvec {

// Calls work(begin, end) over [0, n) in at most `threads` pieces of at least `grain` items (a multiple of
// `step` but for the last), one of them on the calling thread. Call it without the GIL; work must not throw.
template <class Work>
void parallel_for(std::size_t n, int threads, std::size_t grain, std::size_t step, const Work &work) {
    if (n == 0) return;
    const std::size_t most = std::max<std::size_t>(1, n / std::max<std::size_t>(1, grain));
    const std::size_t pieces = std::min<std::size_t>(most, static_cast<std::size_t>(std::max(1, threads)));
    std::size_t each = n / pieces + (n % pieces != 0);
    each = (each + step - 1) / step * step;
    const auto guarded = [&work](std::size_t begin, std::size_t end) {
        const PlainFloats plain;
        work(begin, end);
        fence_streams();
    };
    std::vector<std::thread> started;
    started.reserve(pieces);
    std::size_t begin = std::min(each, n);
    try {
        while (begin < n) {
            const std::size_t end = std::min(begin + each, n);
            started.emplace_back(guarded, begin, end);
            begin = end;
        }
    } catch (const std::system_error &) {
        // No more threads to be had: what is left is done here.
    }
    guarded(0, std::min(each, n));
    if (begin < n) guarded(begin, n);
    for (std::thread &thread : started) thread.join();
}

}  // namespace polyvec
