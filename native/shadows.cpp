// The int8 shadow of float rows: codes, scale and the measured length of what the codes leave out.
//
// Row by row, with y = fl32(x - center): scale = max|y| / 127, code = round(y / scale), and in float64 sums of
// 16 lanes |x|^2, |y|^2, center . y. polyvec.neighbors.reference does the same in NumPy, bit for bit.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "dispatch.hpp"
#include "lanes.hpp"
#include "shadows.hpp"
#include "shadows_neon.hpp"

namespace nb = nanobind;

namespace polyvec {
namespace {

typedef float F16 __attribute__((vector_size(64), aligned(4)));
using F8 = Eight<float>::type;
typedef int32_t I16 __attribute__((vector_size(64), aligned(4)));
typedef int8_t B16 __attribute__((vector_size(16), aligned(1)));

// `y` is room for the centred row, a multiple of 16 long, zero beyond dim; `codes` has dim entries.
template <class T, bool centred>
POLYVEC_INLINE Row measure(const T *x, const float *center, size_t dim, float *y, int8_t *codes) {
    const size_t whole = dim / 16 * 16;
    Lanes8 n0 = {}, n1 = {}, c0 = {}, c1 = {}, a0 = {}, a1 = {};
    F16 peak = {};
    const auto sixteen = [&](const T *from, const float *mid, float *to) __attribute__((always_inline)) {
        const Lanes8 x0 = widen(from), x1 = widen(from + 8);
        n0 += x0 * x0;
        n1 += x1 * x1;
        F8 y0, y1;
        if (centred) {
            const Lanes8 m0 = widen(mid);
            const Lanes8 m1 = widen(mid + 8);
            y0 = __builtin_convertvector(x0 - m0, F8);
            y1 = __builtin_convertvector(x1 - m1, F8);
            const Lanes8 z0 = __builtin_convertvector(y0, Lanes8), z1 = __builtin_convertvector(y1, Lanes8);
            c0 += z0 * z0;
            c1 += z1 * z1;
            a0 += m0 * z0;
            a1 += m1 * z1;
        } else {
            y0 = __builtin_convertvector(x0, F8);
            y1 = __builtin_convertvector(x1, F8);
        }
        *reinterpret_cast<F8 *>(to) = y0;
        *reinterpret_cast<F8 *>(to + 8) = y1;
        F16 v = *reinterpret_cast<F16 *>(to);
        const F16 size = v < 0 ? -v : v;
        peak = size > peak ? size : peak;
    };
    for (size_t d = 0; d < whole; d += 16) sixteen(x + d, centred ? center + d : nullptr, y + d);
    if (whole < dim) {
        T last[16] = {};
        float mid[16] = {};
        for (size_t d = whole; d < dim; ++d) {
            last[d - whole] = x[d];
            if (centred) mid[d - whole] = center[d];
        }
        sixteen(last, mid, y + whole);
    }
    Row row{};
    row.norm2 = fold(n0, n1);
    row.centred2 = centred ? fold(c0, c1) : row.norm2;
    row.along = centred ? fold(a0, a1) : 0.0;
    for (int l = 0; l < 16; ++l) row.peak = peak[l] > row.peak ? peak[l] : row.peak;
    // A NaN escapes the maximum but not the sums; float64 rows may also be beyond float32.
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
    F16 residue = {};
    I16 squares = {};
    const auto encode = [&](const float *from) __attribute__((always_inline)) -> I16 {
        const F16 v = *reinterpret_cast<const F16 *>(from) * inverse;
        const F16 magic = v * 0.0f + 12582912.0f;
        F16 c = (v + magic) - magic;  // round to nearest even: |v| <= 128
        c = c > 127.0f ? magic * 0.0f + 127.0f : c;
        c = c < -127.0f ? magic * 0.0f - 127.0f : c;
        const F16 r = v - c;
        residue += r * r;
        const I16 i = __builtin_convertvector(c, I16);
        squares += i * i;
        return i;
    };
    for (size_t d = 0; d < whole; d += 16) *reinterpret_cast<B16 *>(codes + d) = __builtin_convertvector(encode(y + d), B16);
    if (whole < dim) {
        const I16 last = encode(y + whole);
        for (size_t d = whole; d < dim; ++d) codes[d] = static_cast<int8_t>(last[d - whole]);
    }
    float lanes[16];
    for (int l = 0; l < 16; ++l) {
        lanes[l] = residue[l];
        row.squares += squares[l];
    }
    row.residue = fold(lanes);
    return row;
}

struct Out {
    int8_t *codes;
    float *scale, *residue, *peak;
    int32_t *squares;
    double *norm2, *centred2, *along;
    float *rows;  // the centred rows in float32, where asked for
};

POLYVEC_INLINE void put(const Out &out, size_t i, const Row &row) {
    out.scale[i] = row.scale;
    out.residue[i] = row.residue;
    out.peak[i] = row.peak;
    out.squares[i] = row.squares;
    out.norm2[i] = row.norm2;
    out.centred2[i] = row.centred2;
    out.along[i] = row.along;
}

template <class T, bool centred>
POLYVEC_INLINE void measure_rows(const T *x, const float *center, size_t dim, size_t from, size_t to,
                                                        const Out &out, float *room) {
    for (size_t i = from; i < to; ++i) {
        const Row row = measure<T, centred>(x + i * dim, center, dim, room, out.codes ? out.codes + i * dim : nullptr);
        if (out.rows)
            for (size_t d = 0; d < dim; ++d) out.rows[i * dim + d] = room[d];
        put(out, i, row);
    }
}

#if POLYVEC_NEON
template <class T, bool centred>
void neon_rows(const T *x, const float *center, size_t dim, size_t from, size_t to, const Out &out, float *room) {
    if constexpr (sizeof(T) == sizeof(float)) {
        for (size_t i = from; i < to; ++i) {
            put(out, i, measure_neon<centred>(x + i * dim, center, dim, room, out.codes ? out.codes + i * dim : nullptr));
            if (out.rows) std::memcpy(out.rows + i * dim, centred ? room : x + i * dim, dim * sizeof(float));
        }
    } else {
        measure_rows<T, centred>(x, center, dim, from, to, out, room);
    }
}
#endif

template <class T, bool centred>
void plain_rows(const T *x, const float *c, size_t dim, size_t from, size_t to, const Out &out, float *room) {
    measure_rows<T, centred>(x, c, dim, from, to, out, room);
}
#if POLYVEC_X86
template <class T, bool centred>
__attribute__((target("avx2"))) void avx2_rows(const T *x, const float *c, size_t dim, size_t from, size_t to, const Out &out,
                                               float *room) {
    measure_rows<T, centred>(x, c, dim, from, to, out, room);
}
template <class T, bool centred>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void avx512_rows(
    const T *x, const float *c, size_t dim, size_t from, size_t to, const Out &out, float *room) {
    measure_rows<T, centred>(x, c, dim, from, to, out, room);
}
#endif

template <class T, bool centred> auto pick() {
#if POLYVEC_X86
    if (current_cpu() == Cpu::avx512) return &avx512_rows<T, centred>;
    if (current_cpu() == Cpu::avx2) return &avx2_rows<T, centred>;
#endif
#if POLYVEC_NEON
    if (current_cpu() == Cpu::neon) return &neon_rows<T, centred>;
#endif
    return &plain_rows<T, centred>;
}

template <class T> using In = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Fill = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
void shadow(In<T> rows, nb::object center_object, nb::object codes_object, nb::object rows_object, Fill<float> scale,
            Fill<float> residue, Fill<float> peak, Fill<int32_t> squares, Fill<double> norm2, Fill<double> centred2,
            Fill<double> along, size_t from, size_t to) {
    const size_t n = rows.shape(0), dim = rows.shape(1);
    for (size_t length : {scale.shape(0), residue.shape(0), peak.shape(0), squares.shape(0), norm2.shape(0), centred2.shape(0),
                          along.shape(0)})
        if (length != n) throw std::invalid_argument("shadow: an output has another length");
    if (from > to || to > n) throw std::invalid_argument("shadow: rows beyond the end");
    Out out{nullptr, scale.data(), residue.data(), peak.data(), squares.data(), norm2.data(), centred2.data(), along.data(), nullptr};
    if (!codes_object.is_none()) {
        auto codes = nb::cast<nb::ndarray<int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(codes_object);
        if (codes.shape(0) != n || codes.shape(1) != dim) throw std::invalid_argument("shadow: codes have another shape");
        out.codes = codes.data();
    }
    if (!rows_object.is_none()) {
        auto copy = nb::cast<nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(rows_object);
        if (copy.shape(0) != n || copy.shape(1) != dim) throw std::invalid_argument("shadow: the copy has another shape");
        out.rows = copy.data();
    }
    const float *center = nullptr;
    nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu> middle;
    if (!center_object.is_none()) {
        middle = nb::cast<decltype(middle)>(center_object);
        if (middle.shape(0) != dim) throw std::invalid_argument("shadow: the center has another length");
        center = middle.data();
    }
    std::vector<float> room((dim + 15) / 16 * 16, 0.0f);
    const T *x = rows.data();
    const auto measure = center ? pick<T, true>() : pick<T, false>();
    nb::gil_scoped_release release;
    const PlainFloats plain;
    measure(x, center, dim, from, to, out, room.data());
}

template <class T> void bind_for(nb::module_ &m) {
    m.def("shadow", &shadow<T>, nb::arg("rows").noconvert(), nb::arg("center").none(), nb::arg("codes").none(),
          nb::arg("copy").none(), nb::arg("scale"), nb::arg("residue"), nb::arg("peak"), nb::arg("squares"), nb::arg("norm2"),
          nb::arg("centred2"), nb::arg("along"), nb::arg("start"), nb::arg("stop"));
}

}  // namespace

void bind_shadows(nb::module_ &m) {
    bind_for<float>(m);
    bind_for<double>(m);
}

}  // namespace polyvec
