// What the word kernels share: array types, CPU level, string tables, a few threads.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

// One function, compiled for several instruction sets and chosen when the module is loaded; needs glibc's resolver.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

namespace nb = nanobind;

namespace words {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Longs = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MatrixOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A new NumPy array that owns its memory; the pages come zeroed from the system.
template <typename T>
inline nb::ndarray<nb::numpy, T> own(T *data, std::initializer_list<size_t> shape) {
    nb::capsule owner(data, [](void *p) noexcept { std::free(p); });
    return nb::ndarray<nb::numpy, T>(data, shape, owner);
}

// Zeroed; in large pages where the system has them and it is worth it: touching small ones costs more than filling them.
template <typename T> inline T *allocate(size_t count) {
    void *p = std::calloc(count ? count : 1, sizeof(T));
    if (!p) throw std::bad_alloc();
#if defined(__linux__)
    constexpr uintptr_t page = 2u << 20;
    const uintptr_t first = ((uintptr_t)p + page - 1) / page * page, last = ((uintptr_t)p + count * sizeof(T)) / page * page;
    if (last > first + page) madvise((void *)first, last - first, MADV_HUGEPAGE);
#endif
    return static_cast<T *>(p);
}

template <typename T> inline nb::ndarray<nb::numpy, T> copy_out(const std::vector<T> &values) {
    T *data = allocate<T>(values.size());
    if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(T));
    return own<T>(data, {values.size()});
}

// A table of strings: bytes that stay where they are, a start and a stop each.
struct Table {
    const uint8_t *data;
    size_t size;
    const int64_t *starts;
    const int64_t *stops;
    size_t count;

    Table(const Bytes &bytes, const Longs &first, const Longs &last)
        : data(bytes.data()), size(bytes.size()), starts(first.data()), stops(last.data()), count(first.size()) {
        if (last.size() != count) throw nb::value_error("starts and stops differ in number");
        for (size_t i = 0; i < count; ++i)
            if (starts[i] < 0 || starts[i] > stops[i] || (uint64_t)stops[i] > size)
                throw nb::index_error("a string lies outside its bytes");
    }
    const uint8_t *at(size_t i) const { return data + starts[i]; }
    size_t length(size_t i) const { return (size_t)(stops[i] - starts[i]); }
};

// Runs work(start, stop, thread) over [0, count) in equal ranges, one a thread. Where no thread is to be had, the caller
// does its share; what a thread throws is thrown here, when all have ended.
template <typename Work> inline void spread(size_t count, size_t threads, size_t least, Work work) {
    size_t most = std::max<size_t>(1, count / std::max<size_t>(1, least));
    threads = std::max<size_t>(1, std::min(threads, most));
    if (threads == 1) return work((size_t)0, count, (size_t)0);
    std::vector<std::thread> pool;
    std::vector<std::exception_ptr> failed(threads);
    pool.reserve(threads);
    size_t each = (count + threads - 1) / threads;
    const auto run = [&](size_t t) {
        try {
            work(std::min(count, t * each), std::min(count, (t + 1) * each), t);
        } catch (...) {
            failed[t] = std::current_exception();
        }
    };
    for (size_t t = 0; t < threads; ++t) {
        try {
            pool.emplace_back(run, t);
        } catch (const std::system_error &) {
            run(t);
        }
    }
    for (auto &thread : pool) thread.join();
    for (const auto &error : failed)
        if (error) std::rethrow_exception(error);
}

} // namespace words
