// The casts: one table of single-threaded kernels a CPU path, all with one signature.
//
// What every path gives, bit for bit (tests/kernels compares them with the NumPy reference):
//   f16 -> f32    exact; a NaN keeps its sign and payload, signalling ones stay signalling
//   f32 -> f16    nearest even; a NaN keeps its sign and its top ten payload bits, or payload 1 if those are 0
//   bf16 -> f32   the bits shifted
//   f32 -> bf16   nearest even; a NaN becomes the quiet NaN 0x7fc0 with its sign
//   u8 -> f32     q * b rounded, then + a rounded (two roundings, never fused)
//   f32 -> u8     nearest even of (x - a) / b, clamped to 0..255; a NaN quotient gives 0
//   i8 -> f32     q / a (div) or q * a (mul)
//   f32 -> i8     nearest even of x * a (mul) or x / a (div), clamped to -127..127; NaN gives 0
#pragma once
#include <cstddef>
#include <cstdint>

#include "dispatch.hpp"

namespace polyvec {

// n elements from src to dst, neither aligned; stream: use non-temporal stores where dst can be aligned.
using CastKernel = void (*)(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float b,
                            bool stream);

// Outputs above this leave the caches before anyone reads them back: write past the caches, which saves
// reading each line first.
constexpr std::size_t stream_bytes = std::size_t{8} << 20;

struct Extremes {
    float min, max;  // of the values that are not NaN
    bool nan;        // whether there was one
};

struct CastTable {
    CastKernel f16_to_f32, f32_to_f16, bf16_to_f32, f32_to_bf16, u8_to_f32, f32_to_u8;
    CastKernel i8_to_f32_div, i8_to_f32_mul, f32_to_i8_mul, f32_to_i8_div;
    Extremes (*f32_min_max)(const std::uint8_t *src, std::size_t n);
};

// The table of the path in use now.
const CastTable &cast_table(Cpu cpu);

extern const CastTable casts_portable;
#if POLYVEC_X86
extern const CastTable casts_avx2, casts_avx512;
#endif
#if POLYVEC_NEON
extern const CastTable casts_neon;
#endif

}  // namespace polyvec
