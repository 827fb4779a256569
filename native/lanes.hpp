// Float64 sums of a defined order: 16 lanes, lane l adding the elements l, l + 16, ..., then the lanes as a tree of halves.
//
// Scores, lengths and the measures of a shadow are such sums, on every machine; polyvec.kernels.scores repeats them in NumPy.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors pass only between functions inlined into one another
#endif

#define POLYVEC_INLINE inline __attribute__((always_inline))

namespace polyvec {

typedef double Lanes8 __attribute__((vector_size(64), aligned(8)));
template <class T> struct Eight;
template <> struct Eight<float> { typedef float type __attribute__((vector_size(32), aligned(4))); };
template <> struct Eight<double> { typedef double type __attribute__((vector_size(64), aligned(8))); };
template <> struct Eight<int8_t> { typedef int8_t type __attribute__((vector_size(8), aligned(1))); };
template <> struct Eight<uint8_t> { typedef uint8_t type __attribute__((vector_size(8), aligned(1))); };

template <class T> POLYVEC_INLINE Lanes8 widen(const T *p) {
    return __builtin_convertvector(*reinterpret_cast<const typename Eight<T>::type *>(p), Lanes8);
}

template <class V> POLYVEC_INLINE V fold(const V *lanes) {
    V half[8];
    for (int l = 0; l < 8; ++l) half[l] = lanes[l] + lanes[l + 8];
    V quarter[4];
    for (int l = 0; l < 4; ++l) quarter[l] = half[l] + half[l + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

POLYVEC_INLINE double fold(const Lanes8 &low, const Lanes8 &high) {
    double lanes[16];
    for (int l = 0; l < 8; ++l) {
        lanes[l] = low[l];
        lanes[l + 8] = high[l];
    }
    return fold(lanes);
}

// The squared length of a row. The loop over the lanes is the compiler's to turn into registers, of any width.
template <class T> POLYVEC_INLINE double square(const T *x, size_t dim) {
    double lanes[16] = {};
    size_t d = 0;
    for (; d + 16 <= dim; d += 16)
        for (size_t l = 0; l < 16; ++l) lanes[l] += static_cast<double>(x[d + l]) * static_cast<double>(x[d + l]);
    for (size_t l = 0; d < dim; ++d, ++l) lanes[l] += static_cast<double>(x[d]) * static_cast<double>(x[d]);
    return fold(lanes);
}

}  // namespace polyvec
