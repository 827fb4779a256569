// The casts with AVX2 and F16C. Compiled with those flags (CMakeLists.txt); see casts_avx512.cpp on templates.
#include "casts.hpp"

#if POLYVEC_X86
#include <immintrin.h>

#include "casts_drive.hpp"

namespace polyvec {
namespace {

template <bool stream>
inline void put(std::uint8_t *dst, __m256i value) {
    if constexpr (stream)
        _mm256_stream_si256(reinterpret_cast<__m256i *>(dst), value);
    else
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(dst), value);
}
template <bool stream>
inline void put(std::uint8_t *dst, __m256 value) {
    put<stream>(dst, _mm256_castps_si256(value));
}
inline __m256 floats(const std::uint8_t *src) { return _mm256_loadu_ps(reinterpret_cast<const float *>(src)); }
inline __m128i halves(const std::uint8_t *src) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(src)); }
inline __m128i bytes(const std::uint8_t *src) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(src)); }
inline __m256 unordered(__m256 x) { return _mm256_cmp_ps(x, x, _CMP_UNORD_Q); }

struct F16ToF32 {
    static constexpr std::size_t in_bytes = 2, out_bytes = 4, count = 16;
    F16ToF32(float, float) {}
    static __m256 not_quieted(__m256 x, __m256 nan, __m128i half) {
        // The conversion set bit 22 of signalling NaNs; take it off where the half had no bit 9.
        const __m256i wide = _mm256_cvtepu16_epi32(half);
        const __m256i quieted = _mm256_slli_epi32(_mm256_andnot_si256(wide, _mm256_set1_epi32(0x200)), 13);
        return _mm256_andnot_ps(_mm256_and_ps(nan, _mm256_castsi256_ps(quieted)), x);
    }
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        const __m128i h0 = halves(src), h1 = halves(src + 16);
        __m256 x0 = _mm256_cvtph_ps(h0), x1 = _mm256_cvtph_ps(h1);
        const __m256 n0 = unordered(x0), n1 = unordered(x1);
        if (__builtin_expect(_mm256_movemask_ps(_mm256_or_ps(n0, n1)), 0))
            x0 = not_quieted(x0, n0, h0), x1 = not_quieted(x1, n1, h1);
        put<stream>(dst, x0);
        put<stream>(dst + 32, x1);
    }
};

struct F32ToF16 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 2, count = 32;
    F32ToF16(float, float) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        __m256 nan = _mm256_setzero_ps();
        __m128i half[4];
        for (int k = 0; k < 4; ++k) {
            const __m256 x = floats(src + 32 * k);
            half[k] = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            nan = _mm256_or_ps(nan, unordered(x));
        }
        if (__builtin_expect(_mm256_movemask_ps(nan), 0))
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint16_t one = float_to_half(load<float>(src + 4 * i));
                std::memcpy(reinterpret_cast<std::uint8_t *>(half) + 2 * i, &one, 2);
            }
        put<stream>(dst, _mm256_set_m128i(half[1], half[0]));
        put<stream>(dst + 32, _mm256_set_m128i(half[3], half[2]));
    }
};

struct Bf16ToF32 {
    static constexpr std::size_t in_bytes = 2, out_bytes = 4, count = 16;
    Bf16ToF32(float, float) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        put<stream>(dst, _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves(src)), 16));
        put<stream>(dst + 32, _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves(src + 16)), 16));
    }
};

struct F32ToBf16 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 2, count = 32;
    F32ToBf16(float, float) {}
    static __m256i convert(__m256 x) {
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
        const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x8000));
        const __m256i quiet = _mm256_or_si256(sign, _mm256_set1_epi32(0x7fc0));
        return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, _mm256_castps_si256(unordered(x)));
    }
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 2; ++k) {
            const __m256i low = convert(floats(src + 64 * k)), high = convert(floats(src + 64 * k + 32));
            // Packing works within 128-bit halves: put the quarters back in order.
            put<stream>(dst + 32 * k, _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8));
        }
    }
};

struct U8ToF32 {
    static constexpr std::size_t in_bytes = 1, out_bytes = 4, count = 16;
    __m256 minimum, scale;
    U8ToF32(float a, float b) : minimum(_mm256_set1_ps(a)), scale(_mm256_set1_ps(b)) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 2; ++k) {
            const __m256 q = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes(src + 8 * k)));
            put<stream>(dst + 32 * k, _mm256_add_ps(_mm256_mul_ps(q, scale), minimum));
        }
    }
};

template <bool divide>
struct I8ToF32 {
    static constexpr std::size_t in_bytes = 1, out_bytes = 4, count = 16;
    __m256 factor;
    I8ToF32(float a, float) : factor(_mm256_set1_ps(a)) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 2; ++k) {
            const __m256 q = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes(src + 8 * k)));
            put<stream>(dst + 32 * k, divide ? _mm256_div_ps(q, factor) : _mm256_mul_ps(q, factor));
        }
    }
};

inline __m256i in_order(__m256i packed) {
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

struct F32ToU8 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 1, count = 64;
    __m256 minimum, scale;
    F32ToU8(float a, float b) : minimum(_mm256_set1_ps(a)), scale(_mm256_set1_ps(b)) {}
    __m256i codes(const std::uint8_t *src) const {
        __m256 q = _mm256_div_ps(_mm256_sub_ps(floats(src), minimum), scale);
        q = _mm256_max_ps(q, _mm256_setzero_ps());  // the second operand where q is NaN
        return _mm256_cvtps_epi32(_mm256_min_ps(q, _mm256_set1_ps(255.0f)));
    }
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 2; ++k, src += 128) {
            const __m256i low = _mm256_packs_epi32(codes(src), codes(src + 32));
            const __m256i high = _mm256_packs_epi32(codes(src + 64), codes(src + 96));
            put<stream>(dst + 32 * k, in_order(_mm256_packus_epi16(low, high)));
        }
    }
};

template <bool divide>
struct F32ToI8 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 1, count = 64;
    __m256 factor;
    F32ToI8(float a, float) : factor(_mm256_set1_ps(a)) {}
    __m256i codes(const std::uint8_t *src) const {
        const __m256 x = floats(src);
        __m256 q = divide ? _mm256_div_ps(x, factor) : _mm256_mul_ps(x, factor);
        q = _mm256_andnot_ps(unordered(q), q);
        q = _mm256_min_ps(_mm256_max_ps(q, _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
        return _mm256_cvtps_epi32(q);
    }
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 2; ++k, src += 128) {
            const __m256i low = _mm256_packs_epi32(codes(src), codes(src + 32));
            const __m256i high = _mm256_packs_epi32(codes(src + 64), codes(src + 96));
            put<stream>(dst + 32 * k, in_order(_mm256_packs_epi16(low, high)));
        }
    }
};

Extremes f32_min_max(const std::uint8_t *src, std::size_t n) {
    const float infinity = bits_as<float>(0x7f800000u);
    __m256 low[4], high[4], nan = _mm256_setzero_ps();
    for (int k = 0; k < 4; ++k) low[k] = _mm256_set1_ps(infinity), high[k] = _mm256_set1_ps(-infinity);
    const auto take = [&](int k, __m256 x) {
        low[k] = _mm256_min_ps(x, low[k]);  // the second operand, the old one, where x is NaN
        high[k] = _mm256_max_ps(x, high[k]);
        nan = _mm256_or_ps(nan, unordered(x));
    };
    for (; n >= 32; n -= 32, src += 128)
        for (int k = 0; k < 4; ++k) take(k, floats(src + 32 * k));
    for (; n >= 8; n -= 8, src += 32) take(0, floats(src));
    if (n != 0) {
        alignas(32) std::uint8_t last[32];
        for (std::size_t i = 0; i < 8; ++i) std::memcpy(last + 4 * i, src + 4 * (i < n ? i : 0), 4);
        take(0, floats(last));
    }
    for (int k = 1; k < 4; ++k) low[0] = _mm256_min_ps(low[k], low[0]), high[0] = _mm256_max_ps(high[k], high[0]);
    alignas(32) float lows[8], highs[8];
    _mm256_store_ps(lows, low[0]);
    _mm256_store_ps(highs, high[0]);
    for (int k = 1; k < 8; ++k) {
        lows[0] = lows[k] < lows[0] ? lows[k] : lows[0];
        highs[0] = highs[k] > highs[0] ? highs[k] : highs[0];
    }
    return {lows[0], highs[0], _mm256_movemask_ps(nan) != 0};
}

}  // namespace

const CastTable casts_avx2 = {drive<F16ToF32>,       drive<F32ToF16>,      drive<Bf16ToF32>,     drive<F32ToBf16>,
                              drive<U8ToF32>,        drive<F32ToU8>,       drive<I8ToF32<true>>, drive<I8ToF32<false>>,
                              drive<F32ToI8<false>>, drive<F32ToI8<true>>, f32_min_max};

}  // namespace polyvec
#endif
