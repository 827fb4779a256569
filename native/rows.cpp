// Rows of a float matrix: gather, lengths, and rows made unit or long again.
#include <cmath>

#include "arrays.hpp"
#include "dispatch.hpp"
#include "lanes.hpp"
#include "threads.hpp"

namespace polyvec {
namespace {

void take_rows(Bytes bytes, Longs offsets, CodesOut out,
               int threads) {
    size_t count = offsets.size(), width = out.shape(1);
    if (out.shape(0) != count) throw nb::value_error("one output row an offset is needed");
    const int64_t *at = offsets.data();
    for (size_t i = 0; i < count; ++i)
        if (at[i] < 0 || (uint64_t)at[i] > bytes.size() || width > bytes.size() - (uint64_t)at[i])
            throw nb::index_error("a row lies outside the bytes");
    const uint8_t *data = bytes.data();
    uint8_t *rows = out.data();
    nb::gil_scoped_release free_threads;
    parallel_for(count, threads, 4096, 1, [=](size_t start, size_t stop) {
        for (size_t i = start; i < stop; ++i) {
            if (i + 4 < stop)
                for (size_t b = 0; b < width; b += 64) __builtin_prefetch(data + at[i + 4] + b);
            std::memcpy(rows + i * width, data + at[i], width);
        }
    });
}

POLYVEC_CLONES double squared(const float *row, size_t dim) { return square(row, dim); }

void row_norms(Matrix matrix, FloatsOut norms, int threads) {
    size_t dim = matrix.shape(1);
    if (norms.size() != matrix.shape(0)) throw nb::value_error("one norm a row is needed");
    const float *data = matrix.data();
    float *out = norms.data();
    nb::gil_scoped_release free_threads;
    parallel_for(matrix.shape(0), threads, 4096, 1, [=](size_t start, size_t stop) {
        for (size_t i = start; i < stop; ++i) out[i] = (float)std::sqrt(squared(data + i * dim, dim));
    });
}

POLYVEC_CLONES void divide(float *row, float by, size_t dim) {
    for (size_t i = 0; i < dim; ++i) row[i] /= by;
}

POLYVEC_CLONES void multiply(float *row, float by, size_t dim) {
    for (size_t i = 0; i < dim; ++i) row[i] *= by;
}

// Divides each row by its norm (a row of norm 0 stays), or multiplies.
void scale_rows(MatrixOut matrix, Floats norms, bool inverse, int threads) {
    size_t dim = matrix.shape(1);
    if (norms.size() != matrix.shape(0)) throw nb::value_error("one norm a row is needed");
    float *data = matrix.data();
    const float *by = norms.data();
    nb::gil_scoped_release free_threads;
    parallel_for(matrix.shape(0), threads, 4096, 1, [=](size_t start, size_t stop) {
        for (size_t i = start; i < stop; ++i) {
            if (!inverse) multiply(data + i * dim, by[i], dim);
            else if (by[i] > 0) divide(data + i * dim, by[i], dim);
        }
    });
}

}  // namespace

void bind_rows(nb::module_ &m) {
    m.def("take_rows", &take_rows);
    m.def("row_norms", &row_norms);
    m.def("scale_rows", &scale_rows);
}

}  // namespace polyvec
