// The shadow of float32 rows in registers of 16 bytes, bit for bit what shadows.cpp measures.
//
// GCC keeps vectors of 64 bytes in memory where the machine has no such registers: they cost five times as much on ARM.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "dispatch.hpp"
#include "shadows.hpp"

#if POLYVEC_NEON
#include <arm_neon.h>

namespace polyvec {
namespace {

// See `measure`: `y` is room for the centred row, `codes` has dim entries or is none.
template <bool centred>
Row measure_neon(const float *x, const float *center, size_t dim, float *y, int8_t *codes) {
    const size_t whole = dim / 16 * 16;
    float64x2_t n[8], c[8], along[8];
    for (int k = 0; k < 8; ++k) n[k] = c[k] = along[k] = vdupq_n_f64(0);
    float32x4_t peak = vdupq_n_f32(0);
    const auto sixteen = [&](const float *from, const float *mid, float *to) __attribute__((always_inline)) {
        for (int k = 0; k < 4; ++k) {
            const float32x4_t v = vld1q_f32(from + 4 * k);
            const float64x2_t d[2] = {vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v)};
            for (int h = 0; h < 2; ++h) n[2 * k + h] = vaddq_f64(n[2 * k + h], vmulq_f64(d[h], d[h]));
            float32x4_t w = v;
            if (centred) {
                const float32x4_t middle = vld1q_f32(mid + 4 * k);
                const float64x2_t m[2] = {vcvt_f64_f32(vget_low_f32(middle)), vcvt_high_f64_f32(middle)};
                w = vcvt_high_f32_f64(vcvt_f32_f64(vsubq_f64(d[0], m[0])), vsubq_f64(d[1], m[1]));
                vst1q_f32(to + 4 * k, w);
                const float64x2_t z[2] = {vcvt_f64_f32(vget_low_f32(w)), vcvt_high_f64_f32(w)};
                for (int h = 0; h < 2; ++h) {
                    c[2 * k + h] = vaddq_f64(c[2 * k + h], vmulq_f64(z[h], z[h]));
                    along[2 * k + h] = vaddq_f64(along[2 * k + h], vmulq_f64(m[h], z[h]));
                }
            }
            peak = vmaxq_f32(peak, vabsq_f32(w));  // a NaN row is told by its sums
        }
    };
    for (size_t d = 0; d < whole; d += 16) sixteen(x + d, centred ? center + d : nullptr, y + d);
    float last[16] = {}, mid[16] = {};
    if (whole < dim) {
        for (size_t d = whole; d < dim; ++d) {
            last[d - whole] = x[d];
            if (centred) mid[d - whole] = center[d];
        }
        sixteen(last, mid, y + whole);
    }
    const auto added = [](const float64x2_t *lanes) {
        float64x2_t half[4];
        for (int k = 0; k < 4; ++k) half[k] = vaddq_f64(lanes[k], lanes[k + 4]);
        const float64x2_t low = vaddq_f64(half[0], half[2]), high = vaddq_f64(half[1], half[3]);  // q0 q1, q2 q3
        const float64x2_t sums = vaddq_f64(low, high);
        return vgetq_lane_f64(sums, 0) + vgetq_lane_f64(sums, 1);
    };
    Row row{};
    row.norm2 = added(n);
    row.centred2 = centred ? added(c) : row.norm2;
    row.along = centred ? added(along) : 0.0;
    row.peak = vmaxvq_f32(peak);
    if (!std::isfinite(row.norm2) || !std::isfinite(row.centred2) || !std::isfinite(row.along) ||
        !(row.peak <= std::numeric_limits<float>::max()))
        row.peak = std::numeric_limits<float>::infinity();
    if (codes == nullptr) return row;
    if (!(row.peak >= TINY) || std::isinf(row.peak)) {
        for (size_t d = 0; d < dim; ++d) codes[d] = 0;
        return row;
    }
    row.scale = row.peak / 127.0f;
    const float inverse = 1.0f / row.scale;
    const float32x4_t magic = vdupq_n_f32(12582912.0f);
    float32x4_t residue[4];
    for (int k = 0; k < 4; ++k) residue[k] = vdupq_n_f32(0);
    int32x4_t squares = vdupq_n_s32(0);
    const auto encode = [&](const float *from) __attribute__((always_inline)) -> int8x16_t {
        uint32x4_t bits[4];
        for (int k = 0; k < 4; ++k) {
            const float32x4_t v = vmulq_n_f32(vld1q_f32(from + 4 * k), inverse), biased = vaddq_f32(v, magic);
            const float32x4_t r = vsubq_f32(v, vsubq_f32(biased, magic));  // |v| is at most 127 and a rounding: no clamp
            residue[k] = vaddq_f32(residue[k], vmulq_f32(r, r));
            bits[k] = vreinterpretq_u32_f32(biased);
        }
        const uint16x8_t a = vuzp1q_u16(vreinterpretq_u16_u32(bits[0]), vreinterpretq_u16_u32(bits[1]));
        const uint16x8_t b = vuzp1q_u16(vreinterpretq_u16_u32(bits[2]), vreinterpretq_u16_u32(bits[3]));
        const int8x16_t out = vreinterpretq_s8_u8(vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b)));
        squares = vpadalq_s16(squares, vmull_s8(vget_low_s8(out), vget_low_s8(out)));
        squares = vpadalq_s16(squares, vmull_high_s8(out, out));
        return out;
    };
    const float *rows = centred ? y : x;
    for (size_t d = 0; d < whole; d += 16) vst1q_s8(codes + d, encode(rows + d));
    if (whole < dim) {
        int8_t some[16];
        vst1q_s8(some, encode(centred ? y + whole : last));
        for (size_t d = whole; d < dim; ++d) codes[d] = some[d - whole];
    }
    const float32x4_t r0 = vaddq_f32(residue[0], residue[2]), r1 = vaddq_f32(residue[1], residue[3]);
    const float32x4_t r = vaddq_f32(r0, r1);  // r0+r4, r1+r5, r2+r6, r3+r7
    row.residue = (r[0] + r[2]) + (r[1] + r[3]);
    row.squares = vaddvq_s32(squares);
    return row;
}

}  // namespace
}  // namespace polyvec
#endif
