// The casts in plain C++: any machine, vectorised as far as the compiler's baseline allows.
#include "casts.hpp"
#include "casts_scalar.hpp"

namespace polyvec {
namespace {

template <class From, class To, class One>
inline void each(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, One one) {
    for (std::size_t i = 0; i < n; ++i) store<To>(dst + i * sizeof(To), one(load<From>(src + i * sizeof(From))));
}

void f16_to_f32(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float, float, bool) {
    each<std::uint16_t, float>(src, dst, n, [](std::uint16_t h) { return half_to_float(h); });
}
void f32_to_f16(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float, float, bool) {
    each<float, std::uint16_t>(src, dst, n, [](float x) { return float_to_half(x); });
}
void bf16_to_f32(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float, float, bool) {
    each<std::uint16_t, float>(src, dst, n, [](std::uint16_t b) { return bfloat_to_float(b); });
}
void f32_to_bf16(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float, float, bool) {
    each<float, std::uint16_t>(src, dst, n, [](float x) { return float_to_bfloat(x); });
}
void u8_to_f32(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float b, bool) {
    each<std::uint8_t, float>(src, dst, n, [a, b](std::uint8_t q) { return static_cast<float>(q) * b + a; });
}
void f32_to_u8(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float b, bool) {
    each<float, std::uint8_t>(src, dst, n, [a, b](float x) { return quotient_to_u8((x - a) / b); });
}
void i8_to_f32_div(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float, bool) {
    each<std::int8_t, float>(src, dst, n, [a](std::int8_t q) { return static_cast<float>(q) / a; });
}
void i8_to_f32_mul(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float, bool) {
    each<std::int8_t, float>(src, dst, n, [a](std::int8_t q) { return static_cast<float>(q) * a; });
}
void f32_to_i8_mul(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float, bool) {
    each<float, std::int8_t>(src, dst, n, [a](float x) { return scaled_to_i8(x * a); });
}
void f32_to_i8_div(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float, bool) {
    each<float, std::int8_t>(src, dst, n, [a](float x) { return scaled_to_i8(x / a); });
}

Extremes f32_min_max(const std::uint8_t *src, std::size_t n) {
    // Eight independent lanes, because one running minimum is a chain as long as the array.
    constexpr std::size_t lanes = 8;
    const float infinity = bits_as<float>(0x7f800000u);
    float low[lanes], high[lanes];
    std::uint32_t nan = 0;
    for (std::size_t k = 0; k < lanes; ++k) low[k] = infinity, high[k] = -infinity;
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::size_t k = 0; k < lanes; ++k) {
            const float x = load<float>(src + (i + k) * 4);
            low[k] = x < low[k] ? x : low[k];
            high[k] = x > high[k] ? x : high[k];
            nan |= static_cast<std::uint32_t>(x != x);
        }
    for (; i < n; ++i) {
        const float x = load<float>(src + i * 4);
        low[0] = x < low[0] ? x : low[0];
        high[0] = x > high[0] ? x : high[0];
        nan |= static_cast<std::uint32_t>(x != x);
    }
    for (std::size_t k = 1; k < lanes; ++k) {
        low[0] = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
    }
    return {low[0], high[0], nan != 0};
}

}  // namespace

const CastTable casts_portable = {f16_to_f32,    f32_to_f16,    bf16_to_f32,   f32_to_bf16,   u8_to_f32,  f32_to_u8,
                                  i8_to_f32_div, i8_to_f32_mul, f32_to_i8_mul, f32_to_i8_div, f32_min_max};

}  // namespace polyvec
