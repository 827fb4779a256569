// The casts with AVX-512 (F, BW, DQ, VL). Compiled with those flags (CMakeLists.txt): no standard library
// templates here, whose shared copies could then reach a machine without them.
#include "casts.hpp"

#if POLYVEC_X86
#include <immintrin.h>

#include "casts_drive.hpp"

namespace polyvec {
namespace {

template <bool stream>
inline void put(std::uint8_t *dst, __m512i value) {
    if constexpr (stream)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(dst), value);
    else
        _mm512_storeu_si512(dst, value);
}
template <bool stream>
inline void put(std::uint8_t *dst, __m512 value) {
    put<stream>(dst, _mm512_castps_si512(value));
}
inline __m512 floats(const std::uint8_t *src) { return _mm512_loadu_ps(src); }
inline __m256i halves(const std::uint8_t *src) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(src)); }
inline __m128i bytes(const std::uint8_t *src) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(src)); }

inline __m512 not_quieted(__m512 value, __mmask16 nan, __m256i half) {
    // The conversion set bit 22 of signalling NaNs; take it off where the half had no bit 9.
    const __m512i wide = _mm512_cvtepu16_epi32(half);
    const __m512i quieted = _mm512_slli_epi32(_mm512_andnot_si512(wide, _mm512_set1_epi32(0x200)), 13);
    const __m512i bits = _mm512_castps_si512(value);
    return _mm512_castsi512_ps(_mm512_mask_andnot_epi32(bits, nan, quieted, bits));
}

struct F16ToF32 {
    static constexpr std::size_t in_bytes = 2, out_bytes = 4, count = 16;
    F16ToF32(float, float) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        const __m256i half = halves(src);
        __m512 x = _mm512_cvtph_ps(half);
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        if (__builtin_expect(nan != 0, 0)) x = not_quieted(x, nan, half);
        put<stream>(dst, x);
    }
};

struct F32ToF16 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 2, count = 32;
    F32ToF16(float, float) {}
    static __m256i convert(__m512 x) {
        const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        if (__builtin_expect(nan == 0, 1)) return half;
        const __m512i bits = _mm512_castps_si512(x);
        __m512i payload = _mm512_and_si512(_mm512_srli_epi32(bits, 13), _mm512_set1_epi32(0x3ff));
        payload = _mm512_max_epu32(payload, _mm512_set1_epi32(1));
        const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x8000));
        const __m512i kept = _mm512_or_si512(_mm512_or_si512(sign, payload), _mm512_set1_epi32(0x7c00));
        return _mm256_mask_mov_epi16(half, nan, _mm512_cvtepi32_epi16(kept));
    }
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        const __m256i h0 = convert(floats(src)), h1 = convert(floats(src + 64));
        put<stream>(dst, _mm512_inserti64x4(_mm512_castsi256_si512(h0), h1, 1));
    }
};

struct Bf16ToF32 {
    static constexpr std::size_t in_bytes = 2, out_bytes = 4, count = 16;
    Bf16ToF32(float, float) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        put<stream>(dst, _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves(src)), 16));
    }
};

struct F32ToBf16 {
    // In integers: the bf16 instructions flush subnormals.
    static constexpr std::size_t in_bytes = 4, out_bytes = 2, count = 32;
    F32ToBf16(float, float) {}
    static __m256i convert(__m512 x) {
        const __m512i bits = _mm512_castps_si512(x);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
        const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x8000));
        const __m512i quiet = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc0));
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), nan, quiet));
    }
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        const __m256i h0 = convert(floats(src)), h1 = convert(floats(src + 64));
        put<stream>(dst, _mm512_inserti64x4(_mm512_castsi256_si512(h0), h1, 1));
    }
};

struct U8ToF32 {
    static constexpr std::size_t in_bytes = 1, out_bytes = 4, count = 16;
    __m512 minimum, scale;
    U8ToF32(float a, float b) : minimum(_mm512_set1_ps(a)), scale(_mm512_set1_ps(b)) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes(src)));
        put<stream>(dst, _mm512_add_ps(_mm512_mul_ps(q, scale), minimum));
    }
};

template <bool divide>
struct I8ToF32 {
    static constexpr std::size_t in_bytes = 1, out_bytes = 4, count = 16;
    __m512 factor;
    I8ToF32(float a, float) : factor(_mm512_set1_ps(a)) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes(src)));
        put<stream>(dst, divide ? _mm512_div_ps(q, factor) : _mm512_mul_ps(q, factor));
    }
};

// Four vectors of codes as 64 bytes.
template <bool stream>
inline void put_codes(std::uint8_t *dst, const __m512i (&codes)[4]) {
    __m512i all = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(codes[0]));
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(codes[1]), 1);
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(codes[2]), 2);
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(codes[3]), 3);
    put<stream>(dst, all);
}

struct F32ToU8 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 1, count = 64;
    __m512 minimum, scale;
    F32ToU8(float a, float b) : minimum(_mm512_set1_ps(a)), scale(_mm512_set1_ps(b)) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        __m512i codes[4];
        for (int k = 0; k < 4; ++k) {
            __m512 q = _mm512_div_ps(_mm512_sub_ps(floats(src + 64 * k), minimum), scale);
            q = _mm512_max_ps(q, _mm512_setzero_ps());  // the second operand where q is NaN
            codes[k] = _mm512_cvtps_epi32(_mm512_min_ps(q, _mm512_set1_ps(255.0f)));
        }
        put_codes<stream>(dst, codes);
    }
};

template <bool divide>
struct F32ToI8 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 1, count = 64;
    __m512 factor;
    F32ToI8(float a, float) : factor(_mm512_set1_ps(a)) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        __m512i codes[4];
        for (int k = 0; k < 4; ++k) {
            const __m512 x = floats(src + 64 * k);
            __m512 q = divide ? _mm512_div_ps(x, factor) : _mm512_mul_ps(x, factor);
            q = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(q, q, _CMP_ORD_Q), q);
            q = _mm512_min_ps(_mm512_max_ps(q, _mm512_set1_ps(-127.0f)), _mm512_set1_ps(127.0f));
            codes[k] = _mm512_cvtps_epi32(q);
        }
        put_codes<stream>(dst, codes);
    }
};

Extremes f32_min_max(const std::uint8_t *src, std::size_t n) {
    const float infinity = bits_as<float>(0x7f800000u);
    __m512 low[4], high[4];
    __mmask16 nan = 0;
    for (int k = 0; k < 4; ++k) low[k] = _mm512_set1_ps(infinity), high[k] = _mm512_set1_ps(-infinity);
    const auto take = [&](int k, __m512 x) {
        low[k] = _mm512_min_ps(x, low[k]);  // the second operand, the old one, where x is NaN
        high[k] = _mm512_max_ps(x, high[k]);
        nan = static_cast<__mmask16>(nan | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));
    };
    for (; n >= 64; n -= 64, src += 256)
        for (int k = 0; k < 4; ++k) {
            __builtin_prefetch(src + far_ahead + 64 * k);
            take(k, floats(src + 64 * k));
        }
    for (; n >= 16; n -= 16, src += 64) take(0, floats(src));
    if (n != 0) {
        alignas(64) std::uint8_t last[64];
        for (std::size_t i = 0; i < 16; ++i) std::memcpy(last + 4 * i, src + 4 * (i < n ? i : 0), 4);
        take(0, floats(last));
    }
    for (int k = 1; k < 4; ++k) low[0] = _mm512_min_ps(low[k], low[0]), high[0] = _mm512_max_ps(high[k], high[0]);
    return {_mm512_reduce_min_ps(low[0]), _mm512_reduce_max_ps(high[0]), nan != 0};
}

}  // namespace

const CastTable casts_avx512 = {drive<F16ToF32>,       drive<F32ToF16>,       drive<Bf16ToF32>,      drive<F32ToBf16>,
                                drive<U8ToF32>,        drive<F32ToU8>,        drive<I8ToF32<true>>,  drive<I8ToF32<false>>,
                                drive<F32ToI8<false>>, drive<F32ToI8<true>>,  f32_min_max};

}  // namespace polyvec
#endif
