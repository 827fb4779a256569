// The casts on 64-bit ARM: the half conversions have their own instructions; compilers turn the plain loops
// of the portable path into NEON, which is the baseline there.
#include "casts.hpp"

#if POLYVEC_NEON
#include <arm_neon.h>

#include "casts_drive.hpp"

namespace polyvec {
namespace {

struct F16ToF32 {
    static constexpr std::size_t in_bytes = 2, out_bytes = 4, count = 16;
    F16ToF32(float, float) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 4; ++k) {
            const uint16x4_t half = vreinterpret_u16_u8(vld1_u8(src + 8 * k));
            const float32x4_t x = vcvt_f32_f16(vreinterpret_f16_u16(half));
            uint32x4_t bits = vreinterpretq_u32_f32(x);
            // The conversion set bit 22 of signalling NaNs; take it off where the half had no bit 9.
            const uint32x4_t quieted = vshlq_n_u32(vbicq_u32(vdupq_n_u32(0x200), vmovl_u16(half)), 13);
            bits = vbicq_u32(bits, vbicq_u32(quieted, vceqq_f32(x, x)));
            vst1q_u8(dst + 16 * k, vreinterpretq_u8_u32(bits));
        }
    }
};

struct F32ToF16 {
    static constexpr std::size_t in_bytes = 4, out_bytes = 2, count = 32;
    F32ToF16(float, float) {}
    template <bool stream>
    void step(const std::uint8_t *src, std::uint8_t *dst) const {
        for (int k = 0; k < 8; ++k) {
            const uint32x4_t bits = vreinterpretq_u32_u8(vld1q_u8(src + 16 * k));
            const float32x4_t x = vreinterpretq_f32_u32(bits);
            const uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(x));
            const uint32x4_t payload =
                vmaxq_u32(vandq_u32(vshrq_n_u32(bits, 13), vdupq_n_u32(0x3ff)), vdupq_n_u32(1));
            const uint32x4_t sign = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(0x8000));
            const uint16x4_t kept = vmovn_u32(vorrq_u32(vorrq_u32(sign, payload), vdupq_n_u32(0x7c00)));
            const uint16x4_t number = vmovn_u32(vceqq_f32(x, x));
            vst1_u8(dst + 8 * k, vreinterpret_u8_u16(vbsl_u16(number, half, kept)));
        }
    }
};

}  // namespace

const CastTable casts_neon = {drive<F16ToF32>,
                              drive<F32ToF16>,
                              casts_portable.bf16_to_f32,
                              casts_portable.f32_to_bf16,
                              casts_portable.u8_to_f32,
                              casts_portable.f32_to_u8,
                              casts_portable.i8_to_f32_div,
                              casts_portable.i8_to_f32_mul,
                              casts_portable.f32_to_i8_mul,
                              casts_portable.f32_to_i8_div,
                              casts_portable.f32_min_max};

}  // namespace polyvec
#endif
