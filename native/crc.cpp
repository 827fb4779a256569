#include "crc.hpp"

#include <array>

#include "dispatch.hpp"

#if POLYVEC_X86
#include <immintrin.h>
#endif

namespace polyvec {
namespace {

constexpr std::uint32_t polynomial = 0xEDB88320u;  // bit 31 is x^0, as in every table of this CRC

// tables[k][b]: what byte b comes to k bytes further on.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i;
        for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? polynomial : 0);
        tables[0][i] = c;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t i = 0; i < 256; ++i) tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xff];
    return tables;
}

constexpr Tables tables = make_tables();

constexpr std::uint32_t times(std::uint32_t one, std::uint32_t other) {
    std::uint32_t product = 0;
    for (; one; one <<= 1) {
        if (one & 0x80000000u) product ^= other;
        other = (other >> 1) ^ (other & 1 ? polynomial : 0);
    }
    return product;
}

constexpr std::uint32_t x_to_the(std::size_t exponent) {
    std::uint32_t result = 0x80000000u, square = 0x40000000u;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result = times(square, result);
        square = times(square, square);
    }
    return result;
}

// Registers here are plain remainders: the customary complements are `crc32`'s.
std::uint32_t step_bytes(std::uint32_t crc, const std::uint8_t *p, std::size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        std::uint32_t next = 0;
        for (std::size_t k = 0; k < 8; ++k) next ^= tables[7 - k][(p[k] ^ (k < 4 ? crc >> (8 * k) : 0)) & 0xff];
        crc = next;
    }
    for (; n; --n) crc = (crc >> 8) ^ tables[0][(crc ^ *p++) & 0xff];
    return crc;
}

#if POLYVEC_X86
// Folding: 16 bytes are carried `bits` further by two carry-less products with x^(bits + 32) and x^(bits - 32),
// bit-reflected, hence shifted by one.
constexpr long long factor(std::size_t exponent) { return static_cast<long long>(x_to_the(exponent)) << 1; }

#define POLYVEC_FOLD __attribute__((target("pclmul,sse4.1")))
#define POLYVEC_WIDE __attribute__((target("pclmul,sse4.1,vpclmulqdq,avx512f,avx512dq,avx512vl")))

POLYVEC_FOLD inline __m128i factors(std::size_t bits) { return _mm_set_epi64x(factor(bits - 32), factor(bits + 32)); }

POLYVEC_FOLD inline __m128i load16(const std::uint8_t *at) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at)); }

POLYVEC_FOLD inline __m128i carry(__m128i lane, __m128i by, __m128i onto) {
    return _mm_xor_si128(onto, _mm_xor_si128(_mm_clmulepi64_si128(lane, by, 0x00), _mm_clmulepi64_si128(lane, by, 0x11)));
}

// Lanes that lie one after the other, and the bytes after them, to one remainder.
POLYVEC_FOLD std::uint32_t reduce(const __m128i *lanes, int count, const std::uint8_t *p, std::size_t n) {
    const __m128i near = factors(128);
    __m128i all = lanes[0];
    for (int i = 1; i < count; ++i) all = carry(all, near, lanes[i]);
    for (; n >= 16; p += 16, n -= 16) all = carry(all, near, load16(p));
    alignas(16) std::uint8_t rest[16];
    _mm_store_si128(reinterpret_cast<__m128i *>(rest), all);
    return step_bytes(step_bytes(0, rest, 16), p, n);
}

POLYVEC_FOLD std::uint32_t fold(std::uint32_t crc, const std::uint8_t *p, std::size_t n) {
    if (n < 64) return step_bytes(crc, p, n);
    const __m128i far = factors(512);
    __m128i lane[4];
    for (int i = 0; i < 4; ++i) lane[i] = load16(p + 16 * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
        for (int i = 0; i < 4; ++i) lane[i] = carry(lane[i], far, load16(p + 16 * i));
    return reduce(lane, 4, p, n);
}

POLYVEC_WIDE std::uint32_t fold_wide(std::uint32_t crc, const std::uint8_t *p, std::size_t n) {
    if (n < 512) return fold(crc, p, n);
    const __m512i far = _mm512_broadcast_i32x4(factors(2048));
    __m512i wide[4];
    for (int i = 0; i < 4; ++i) wide[i] = _mm512_loadu_si512(p + 64 * i);
    wide[0] = _mm512_xor_si512(wide[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256)
        for (int i = 0; i < 4; ++i)
            wide[i] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(wide[i], far, 0x00),
                                                _mm512_clmulepi64_epi128(wide[i], far, 0x11),
                                                _mm512_loadu_si512(p + 64 * i), 0x96);
    alignas(64) __m128i lanes[16];
    for (int i = 0; i < 4; ++i) _mm512_store_si512(lanes + 4 * i, wide[i]);
    return reduce(lanes, 16, p, n);
}

using Fold = std::uint32_t (*)(std::uint32_t, const std::uint8_t *, std::size_t);

Fold best_fold(Cpu cpu) {
    static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    static const bool wide = folds && __builtin_cpu_supports("vpclmulqdq");
    if (cpu == Cpu::portable || !folds) return step_bytes;
    return cpu == Cpu::avx512 && wide ? fold_wide : fold;
}
#else
auto best_fold(Cpu) { return step_bytes; }
#endif

}  // namespace

std::uint32_t crc32(const std::uint8_t *p, std::size_t n, std::uint32_t crc, Cpu cpu) {
    return ~best_fold(cpu)(~crc, p, n);
}

std::uint32_t crc32_shift(std::size_t bytes) { return x_to_the(8 * bytes); }

std::uint32_t crc32_multiply(std::uint32_t one, std::uint32_t other) { return times(one, other); }

}  // namespace polyvec
