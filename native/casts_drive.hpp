// The loop shared by the vector paths: whole steps in the middle, the ragged ends through a small buffer, so
// that every element goes through the same instructions. Internal linkage, as in casts_scalar.hpp.
#pragma once
#include "casts_scalar.hpp"

namespace polyvec {
namespace {

// So much happens to each line that the loads alone would not reach far enough: a third faster, measured.
constexpr std::size_t far_ahead = 4096;

// Op: in_bytes and out_bytes an element, `count` elements a step (count * out_bytes is a multiple of 64),
// a constructor from (a, b), and step<stream>(src, dst), where stream needs dst on a 64-byte boundary.
template <class Op>
void drive(const std::uint8_t *src, std::uint8_t *dst, std::size_t n, float a, float b, bool stream) {
    const Op op(a, b);
    const auto edge = [&](std::size_t k) {
        alignas(64) std::uint8_t in[Op::count * Op::in_bytes] = {};
        alignas(64) std::uint8_t out[Op::count * Op::out_bytes];
        std::memcpy(in, src, k * Op::in_bytes);
        op.template step<false>(in, out);
        std::memcpy(dst, out, k * Op::out_bytes);
        src += k * Op::in_bytes, dst += k * Op::out_bytes, n -= k;
    };
    const auto ahead = [&] {
        for (std::size_t line = 0; line < Op::count * Op::in_bytes; line += 64) __builtin_prefetch(src + far_ahead + line);
    };
    const std::size_t past = reinterpret_cast<std::uintptr_t>(dst) % 64;
    if (stream && past % Op::out_bytes == 0) {
        const std::size_t head = (64 - past) % 64 / Op::out_bytes;
        if (head != 0) edge(head < n ? head : n);
        for (; n >= Op::count; n -= Op::count) {
            ahead();
            op.template step<true>(src, dst);
            src += Op::count * Op::in_bytes, dst += Op::count * Op::out_bytes;
        }
    } else {
        for (; n >= Op::count; n -= Op::count) {
            ahead();
            op.template step<false>(src, dst);
            src += Op::count * Op::in_bytes, dst += Op::count * Op::out_bytes;
        }
    }
    if (n != 0) edge(n);
}

}  // namespace
}  // namespace polyvec
