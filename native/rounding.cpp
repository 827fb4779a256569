// Norm-tuned rounding of unit rows to int8 levels of 1/127 (the reference is kernels/rounding.py).
//
// A row is rounded to nearest, then components are moved to their other neighbour, nearest to the .5 boundary
// first, while that brings the sum of squares closer to 127^2. Everything is exact: float32 * 127 fits a double,
// and a residual above .4 is a multiple of 2^-32, so it becomes an integer key and ties break by index.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "buffers.hpp"
#include "dispatch.hpp"
#include "threads.hpp"

namespace nb = nanobind;

#define ROUND_INLINE inline __attribute__((always_inline))

namespace polyvec {
namespace {

constexpr double kLevels = 127.0;
constexpr int32_t kTarget = 127 * 127;
// A move must leave an error below .6 of a level: the residual must exceed .4.
constexpr double kLeastResidual = 0.4;

struct Scratch {
    std::vector<int32_t> key;    // |residual| * 2^32 - 2^30 where it exceeds .4, else 0
    std::vector<int32_t> level;  // the rounded value
    std::vector<int32_t> delta;  // what a move adds to the sum of squares; the sign of the step in `step`
    std::vector<int32_t> step;
    std::vector<int32_t> at;       // the movable components, in index order ...
    std::vector<int32_t> at_key;   // ... their keys ...
    std::vector<int32_t> at_gain;  // ... and deltas
    explicit Scratch(size_t n) : key(n), level(n), delta(n), step(n), at(n + 1), at_key(n + 1), at_gain(n + 1) {}
};

// Adding and subtracting 1.5 * 2^52 rounds a double to nearest even; adding 2^20 leaves 2^-32 units in the low bits.
constexpr double kRounder = 6755399441055744.0;
constexpr double kFixed = 1048576.0;

ROUND_INLINE int32_t round_row(const float *__restrict x, int8_t *__restrict q, int32_t dim, bool tune, Scratch &s) {
    int32_t *__restrict key = s.key.data();
    int32_t *__restrict level = s.level.data();
    int32_t *__restrict delta = s.delta.data();
    int32_t *__restrict step = s.step.data();
    int32_t sum = 0;
    for (int32_t i = 0; i < dim; ++i) {
        double y = static_cast<double>(x[i]) * kLevels;
        y = y == y ? y : 0.0;  // NaN has no level; callers refuse such rows by their norm
        y = y < -kLevels ? -kLevels : y;
        y = y > kLevels ? kLevels : y;
        double r = (y + kRounder) - kRounder;
        double residual = y - r;
        double size = __builtin_fabs(residual);
        int32_t l = static_cast<int32_t>(r);
        int32_t up = residual < 0 ? -1 : 1;
        int64_t bits = __builtin_bit_cast(int64_t, size + kFixed);
        int32_t fixed = static_cast<int32_t>(static_cast<uint32_t>(bits) - (1u << 30));
        key[i] = size > kLeastResidual ? fixed : 0;
        level[i] = l;
        step[i] = up;
        delta[i] = 2 * l * up + 1;
        sum += l * l;
    }
    if (tune && sum != kTarget) {
        int32_t *__restrict at = s.at.data();
        int32_t *__restrict at_key = s.at_key.data();
        int32_t *__restrict gain = s.at_gain.data();
        int32_t count = 0;
        for (int32_t i = 0; i < dim; ++i) {
            at[count] = i;
            at_key[count] = key[i];
            gain[count] = delta[i];
            count += key[i] != 0;
        }
        // One pass in order of (key descending, index ascending), skipping straight to the next move that helps:
        // |gap + gain| < |gap| means a gain of the other sign, smaller than twice the gap.
        int32_t last_key = INT32_MAX, last_place = -1;
        while (sum != kTarget) {
            int32_t gap = sum - kTarget;
            int32_t low = gap > 0 ? -2 * gap + 1 : 1, high = gap > 0 ? -1 : -2 * gap - 1;
            int32_t best = 0;
            for (int32_t j = 0; j < count; ++j) {
                int32_t later = (at_key[j] < last_key) | ((at_key[j] == last_key) & (j > last_place));
                int32_t helps = (gain[j] >= low) & (gain[j] <= high) & later;
                int32_t candidate = helps ? at_key[j] : 0;
                best = candidate > best ? candidate : best;
            }
            if (!best) break;
            int32_t j = best == last_key ? last_place + 1 : 0;
            while (at_key[j] != best || gain[j] < low || gain[j] > high) ++j;
            level[at[j]] += step[at[j]];
            sum += gain[j];
            last_key = best;
            last_place = j;
        }
    }
    for (int32_t i = 0; i < dim; ++i) q[i] = static_cast<int8_t>(level[i]);
    return sum;
}

ROUND_INLINE void round_rows(const float *x, int8_t *q, int32_t *squares, size_t rows, size_t dim, bool tune) {
    Scratch s(dim);
    for (size_t r = 0; r < rows; ++r)
        squares[r] = round_row(x + r * dim, q + r * dim, static_cast<int32_t>(dim), tune, s);
}

using RoundRows = void (*)(const float *, int8_t *, int32_t *, size_t, size_t, bool);

void round_portable(const float *x, int8_t *q, int32_t *s, size_t n, size_t d, bool t) { round_rows(x, q, s, n, d, t); }
#if POLYVEC_X86
__attribute__((target("avx2"))) void round_avx2(const float *x, int8_t *q, int32_t *s, size_t n, size_t d, bool t) {
    round_rows(x, q, s, n, d, t);
}
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void round_avx512(
    const float *x, int8_t *q, int32_t *s, size_t n, size_t d, bool t) {
    round_rows(x, q, s, n, d, t);
}
#endif

RoundRows pick() {
#if POLYVEC_X86
    const Cpu cpu = current_cpu();
    if (cpu == Cpu::avx512) return round_avx512;
    if (cpu == Cpu::avx2) return round_avx2;
#endif
    return round_portable;
}

void round_levels(nb::handle rows, nb::handle out, nb::handle squares, size_t dim, bool tune, int threads) {
    Buffer from(rows, false), to(out, true), sums(squares, true);
    const size_t n = sums.size() / sizeof(int32_t);
    // 127^2 * dim must fit the 32-bit sums, with room for a gain.
    if (dim > 130000) throw nb::value_error("round_levels: at most 130000 dimensions");
    if (from.size() != n * dim * sizeof(float) || to.size() != n * dim || sums.size() % sizeof(int32_t))
        throw nb::value_error("round_levels: rows, out and squares must agree in shape");
    const float *x = reinterpret_cast<const float *>(from.data());
    int8_t *q = reinterpret_cast<int8_t *>(to.data());
    int32_t *s = reinterpret_cast<int32_t *>(sums.data());
    const RoundRows run = pick();
    nb::gil_scoped_release release;
    parallel_for(n, threads, 256, 1, [&](size_t begin, size_t end) {
        run(x + begin * dim, q + begin * dim, s + begin, end - begin, dim, tune);
    });
}

}  // namespace

void bind_rounding(nb::module_ &m) {
    m.def("round_levels", &round_levels, nb::arg("rows"), nb::arg("out"), nb::arg("squares"), nb::arg("dim"),
          nb::arg("tune"), nb::arg("threads"));
}

}  // namespace polyvec
