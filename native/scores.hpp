// The score of a row: float64 sums in a defined order, and the same without bounds on the exponent.
//
// Sums have the lanes of lanes.hpp. Where a sum could have underflowed or has overflowed it is taken again in `Wide` numbers: 53 bits and any
// exponent. polyvec.kernels.scores does the same in NumPy, bit for bit; docs/exact-search.md says what is promised.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lanes.hpp"

namespace polyvec {

enum Metric { IP = 0, COSINE = 1, L2 = 2 };

constexpr double LOW = 0x1p-900, HIGH = 0x1p1000;  // sums of squares in between lost nothing that shows
constexpr double SAFE_LOW = 0x1p-440, SAFE_HIGH = 0x1p440;

// A key (higher is better; NaN: the row has none) and what ranks keys that are equal for want of range.
struct Score {
    double key, tie;
};

// A query's length as float64 squares give it, whether that is trustworthy, and whether all its values are of
// ordinary size, so that products with float32, int8 and uint8 values can neither underflow nor overflow.
struct Asked {
    const double *values;
    double norm;
    bool fair, safe;
};

inline Asked look_at(const double *q, size_t dim, double norm) {
    bool safe = true;
    for (size_t d = 0; d < dim; ++d) {
        const double size = std::fabs(q[d]);
        safe &= size == 0.0 || (size >= SAFE_LOW && size <= SAFE_HIGH);
    }
    return {q, norm, norm >= 0x1p-450 && norm <= 0x1p500, safe};
}

struct Wide {
    double part = 0.0;  // |part| in [0.5, 1), or 0
    int64_t power = NOTHING;
    static constexpr int64_t NOTHING = -10000000;

    static Wide of(double value, int64_t power = 0) {
        int shift = 0;
        const double part = std::frexp(value, &shift);
        return part == 0.0 ? Wide{part, NOTHING} : Wide{part, shift + power};
    }
    friend Wide operator+(const Wide &a, const Wide &b) {
        const int64_t power = a.power > b.power ? a.power : b.power;
        // What lies 300 bits below the other cannot change its rounding.
        const auto aligned = [power](const Wide &v) {
            const int64_t down = v.power - power;
            return std::ldexp(v.part, static_cast<int>(down < -300 ? -300 : down));
        };
        return of(aligned(a) + aligned(b), power);
    }
    friend Wide operator*(const Wide &a, const Wide &b) { return of(a.part * b.part, a.power + b.power); }
    friend Wide operator/(const Wide &a, const Wide &b) { return of(a.part / b.part, a.power - b.power); }
    Wide root() const {
        const int64_t odd = power & 1;
        return of(std::sqrt(part * static_cast<double>(1 + odd)), (power - odd) / 2);
    }
    double shifted(int64_t by) const {
        const int64_t to = power + by;
        return std::ldexp(part, static_cast<int>(to < -5000 ? -5000 : to > 5000 ? 5000 : to));
    }
    Score read() const {
        if (power < -2500) return {0.0, 0.0};  // only a cosine can be as small
        const double value = shifted(0), size = std::fabs(value);
        const bool beyond = part != 0.0 && !(size >= 0x1p-1022 && size <= std::numeric_limits<double>::max());
        return {value, beyond ? shifted(power > 0 ? -1500 : 1500) : 0.0};
    }
};

template <int metric, class T>
__attribute__((noinline, cold)) Score score_widely(const T *x, const double *q, size_t dim) {
    Wide sums[16], squares[16], asked[16];
    for (size_t d = 0; d < dim; ++d) {
        const double value = static_cast<double>(x[d]);
        if (!std::isfinite(value)) return {std::numeric_limits<double>::quiet_NaN(), 0.0};
        const Wide a = Wide::of(value), b = Wide::of(q[d]);
        Wide &sum = sums[d % 16];
        if (metric == L2) {
            const Wide gap = a + Wide{-b.part, b.power};
            sum = sum + gap * gap;
        } else {
            sum = sum + a * b;
        }
        if (metric == COSINE) {
            squares[d % 16] = squares[d % 16] + a * a;
            asked[d % 16] = asked[d % 16] + b * b;
        }
    }
    const Wide total = fold(sums);
    if (metric == IP) return total.read();
    if (metric == L2) {
        const Score far = total.read();
        return {-far.key, -far.tie};
    }
    const Wide length = fold(squares).root();
    if (length.part == 0.0 || total.part == 0.0) return {0.0, 0.0};
    return (total / (length * fold(asked).root())).read();
}

// The score of one row; for cosine also the row's squared norm, in the same order.
template <int metric, class T>
POLYVEC_INLINE Score score_row(const T *x, const Asked &asked, size_t dim) {
    const double *q = asked.values;
    Lanes8 s0 = {}, s1 = {}, w0 = {}, w1 = {};
    size_t d = 0;
    for (; d + 16 <= dim; d += 16) {
        const Lanes8 x0 = widen(x + d), x1 = widen(x + d + 8);
        const Lanes8 q0 = *reinterpret_cast<const Lanes8 *>(q + d), q1 = *reinterpret_cast<const Lanes8 *>(q + d + 8);
        if (metric == L2) {
            const Lanes8 d0 = x0 - q0, d1 = x1 - q1;
            s0 += d0 * d0;
            s1 += d1 * d1;
        } else {
            s0 += x0 * q0;
            s1 += x1 * q1;
        }
        if (metric == COSINE) {
            w0 += x0 * x0;
            w1 += x1 * x1;
        }
    }
    double lanes[16], squares[16];
    for (int l = 0; l < 8; ++l) {
        lanes[l] = s0[l];
        lanes[l + 8] = s1[l];
        squares[l] = w0[l];
        squares[l + 8] = w1[l];
    }
    for (size_t l = 0; d < dim; ++d, ++l) {
        const double v = static_cast<double>(x[d]);
        if (metric == L2) {
            const double diff = v - q[d];
            lanes[l] += diff * diff;
        } else {
            lanes[l] += v * q[d];
        }
        if (metric == COSINE) squares[l] += v * v;
    }
    constexpr double most = std::numeric_limits<double>::max();
    const double sum = fold(lanes), size = std::fabs(sum);
    // A NaN or an infinity fails every one of these comparisons.
    if (metric == L2) {
        if (sum >= LOW && sum <= most) return {-sum, 0.0};
        return score_widely<metric, T>(x, q, dim);
    }
    const bool safe = !std::is_same_v<T, double> && asked.safe;
    const bool plain = size <= most && (safe || size >= LOW);
    if (metric == IP) return plain ? Score{sum, 0.0} : score_widely<metric, T>(x, q, dim);
    const double square = fold(squares);
    if (plain && asked.fair && square >= LOW && square <= HIGH) return {sum / (std::sqrt(square) * asked.norm), 0.0};
    return score_widely<metric, T>(x, q, dim);
}

}  // namespace polyvec
