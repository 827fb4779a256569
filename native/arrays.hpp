// Typed NumPy arrays: those a kernel borrows, and new ones that own their memory.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace nb = nanobind;

namespace polyvec {

template <typename T, size_t dims> using Array = nb::ndarray<T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;
using Bytes = Array<const uint8_t, 1>;
using Longs = Array<const int64_t, 1>;
using Floats = Array<const float, 1>;
using Matrix = Array<const float, 2>;
using Codes = Array<const uint8_t, 2>;
using FloatsOut = Array<float, 1>;
using MatrixOut = Array<float, 2>;
using CodesOut = Array<uint8_t, 2>;

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

}  // namespace polyvec
