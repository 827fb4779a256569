// The nearest centroid of a group of dimensions, for product quantisation on trial (polyvec.reports.trials).
//
// For each row the scores start at -|centroid|^2 / 2 and take x[d] * centroid[d] one dimension after the other, in
// float32, without fused operations; the highest score wins, of equal ones the first. NumPy does the same.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>

#include "dispatch.hpp"
#include "threads.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors pass only between functions inlined into one another
#endif

namespace nb = nanobind;

namespace polyvec {
namespace {

constexpr size_t COUNT = 256;
typedef float F16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t I16 __attribute__((vector_size(64), aligned(4)));

struct Task {
    const float *rows;
    size_t stride, width;
    const float *book;   // width x 256: one dimension of all centroids after the other
    const float *start;  // -|centroid|^2 / 2
    uint8_t *out;
};

inline __attribute__((always_inline)) void find(const Task &task, size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
        const float *x = task.rows + i * task.stride;
        F16 best = {};
        I16 where = {};
        for (size_t half = 0; half < 2; ++half) {  // 128 centroids at a time stay in registers
            F16 score[8];
            for (size_t v = 0; v < 8; ++v) score[v] = *reinterpret_cast<const F16 *>(task.start + half * 128 + v * 16);
            for (size_t d = 0; d < task.width; ++d) {
                const float *line = task.book + d * COUNT + half * 128;
                for (size_t v = 0; v < 8; ++v) score[v] += *reinterpret_cast<const F16 *>(line + v * 16) * x[d];
            }
            for (size_t v = 0; v < 8; ++v) {
                const int32_t number = static_cast<int32_t>(half * 8 + v);
                if (number == 0) {
                    best = score[0];
                    continue;
                }
                const I16 better = score[v] > best;
                best = better ? score[v] : best;
                where = better ? where * 0 + number : where;
            }
        }
        float top = best[0];
        int32_t place = where[0] * 16;
        for (int32_t lane = 1; lane < 16; ++lane) {
            const int32_t at = where[lane] * 16 + lane;
            if (best[lane] > top || (best[lane] == top && at < place)) {
                top = best[lane];
                place = at;
            }
        }
        task.out[i] = static_cast<uint8_t>(place);
    }
}

void find_portable(const Task &task, size_t from, size_t to) { find(task, from, to); }
#if POLYVEC_X86
__attribute__((target("avx2"))) void find_avx2(const Task &task, size_t from, size_t to) { find(task, from, to); }
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void find_avx512(const Task &task, size_t from,
                                                                                                      size_t to) {
    find(task, from, to);
}
#endif

void nearest(nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows, size_t column,
             nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu> book,
             nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu> start,
             nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out, int threads) {
    const size_t width = book.shape(0), dim = rows.shape(1);
    if (book.shape(1) != COUNT || start.shape(0) != COUNT) throw std::invalid_argument("nearest: a book has 256 centroids");
    if (column > dim || width > dim - column) throw std::invalid_argument("nearest: columns beyond the row");
    if (out.shape(0) != rows.shape(0)) throw std::invalid_argument("nearest: the output has another length");
    const Task task{rows.data() + column, dim, width, book.data(), start.data(), out.data()};
    const size_t n = rows.shape(0);
    auto run = &find_portable;
#if POLYVEC_X86
    const Cpu cpu = current_cpu();
    if (cpu == Cpu::avx512) run = &find_avx512;
    if (cpu == Cpu::avx2) run = &find_avx2;
#endif
    nb::gil_scoped_release release;
    parallel_for(n, threads, 4096, 1, [&](size_t from, size_t to) { run(task, from, to); });
}

}  // namespace

void bind_centroids(nb::module_ &m) {
    m.def("nearest", &nearest, nb::arg("rows").noconvert(), nb::arg("column"), nb::arg("book"), nb::arg("start"),
          nb::arg("out"), nb::arg("threads"));
}

}  // namespace polyvec
