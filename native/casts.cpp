// Bindings of the casts: lengths checked, GIL released, work split over threads.
#include "casts.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <mutex>
#include <tuple>

#include "buffers.hpp"
#include "casts_scalar.hpp"
#include "threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace polyvec {

const CastTable &cast_table(Cpu cpu) {
    switch (cpu) {
#if POLYVEC_X86
        case Cpu::avx512: return casts_avx512;
        case Cpu::avx2: return casts_avx2;
#endif
#if POLYVEC_NEON
        case Cpu::neon: return casts_neon;
#endif
        default: return casts_portable;
    }
}

namespace {

// Starting a thread costs about as much as casting this many floats.
constexpr std::size_t grain_floats = 128 * 1024;
// Pieces begin on a multiple of this many elements, so that an aligned output gives aligned pieces.
constexpr std::size_t piece_step = 64;

using Field = CastKernel CastTable::*;

std::size_t count_elements(const Buffer &src, std::size_t in_bytes, const Buffer &dst, std::size_t out_bytes) {
    const std::size_t n = src.size() / in_bytes;
    if (src.size() % in_bytes != 0) throw nb::value_error("src is not a whole number of elements");
    if (dst.size() % out_bytes != 0 || dst.size() / out_bytes != n)
        throw nb::value_error("out does not have the size of src");
    return n;
}

template <std::size_t in_bytes, std::size_t out_bytes>
void cast(Field field, nb::handle src_object, nb::handle dst_object, float a, float b, int threads) {
    const Buffer src(src_object, false), dst(dst_object, true);
    const std::size_t n = count_elements(src, in_bytes, dst, out_bytes);
    const CastKernel kernel = cast_table(current_cpu()).*field;
    const nb::gil_scoped_release released;
    parallel_for(n, threads, grain_floats, piece_step, [&](std::size_t begin, std::size_t end) {
        kernel(src.data() + begin * in_bytes, dst.data() + begin * out_bytes, end - begin, a, b,
               n * out_bytes >= stream_bytes);
    });
}

template <std::size_t in_bytes, std::size_t out_bytes>
void cast_rows(Field field, nb::handle src_object, nb::handle dst_object, nb::handle scales_object, int threads) {
    const Buffer src(src_object, false), dst(dst_object, true), scales(scales_object, false);
    const std::size_t n = count_elements(src, in_bytes, dst, out_bytes);
    const std::size_t rows = scales.size() / 4;
    if (rows == 0 ? n != 0 : n % rows != 0) throw nb::value_error("scales does not have one float32 a row");
    if (n == 0) return;
    const std::size_t dim = n / rows;
    // The ends of a row that share a cache line with its neighbours are stored plainly: where there are such
    // lines, short rows are not worth streaming.
    const bool whole_lines =
        dim * out_bytes % 64 == 0 && reinterpret_cast<std::uintptr_t>(dst.data()) % 64 == 0;
    const bool stream = n * out_bytes >= stream_bytes && (whole_lines || dim * out_bytes >= 2048);
    const CastKernel kernel = cast_table(current_cpu()).*field;
    const nb::gil_scoped_release released;
    parallel_for(rows, threads, grain_floats / dim + 1, 1, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row)
            kernel(src.data() + row * dim * in_bytes, dst.data() + row * dim * out_bytes, dim,
                   load<float>(scales.data() + row * 4), 0.0f, stream);
    });
}

std::tuple<float, float, bool> min_max(nb::handle src_object, int threads) {
    const Buffer src(src_object, false);
    if (src.size() % 4 != 0) throw nb::value_error("src is not a whole number of elements");
    const auto kernel = cast_table(current_cpu()).f32_min_max;
    const float infinity = std::numeric_limits<float>::infinity();
    Extremes all{infinity, -infinity, false};
    {
        const nb::gil_scoped_release released;
        std::mutex merging;
        parallel_for(src.size() / 4, threads, grain_floats, piece_step, [&](std::size_t begin, std::size_t end) {
            const Extremes piece = kernel(src.data() + begin * 4, end - begin);
            const std::lock_guard<std::mutex> lock(merging);
            all.min = piece.min < all.min ? piece.min : all.min;
            all.max = piece.max > all.max ? piece.max : all.max;
            all.nan = all.nan || piece.nan;
        });
    }
    return {all.min, all.max, all.nan};
}

template <std::size_t in_bytes, std::size_t out_bytes>
void bind_plain(nb::module_ &m, const char *name, Field field) {
    m.def(
        name,
        [field](nb::handle src, nb::handle out, int threads) {
            cast<in_bytes, out_bytes>(field, src, out, 0.0f, 0.0f, threads);
        },
        "src"_a, "out"_a, "threads"_a);
}

template <std::size_t in_bytes, std::size_t out_bytes>
void bind_rows(nb::module_ &m, const char *name, Field field) {
    m.def(
        name,
        [field](nb::handle src, nb::handle out, nb::handle scales, int threads) {
            cast_rows<in_bytes, out_bytes>(field, src, out, scales, threads);
        },
        "src"_a, "out"_a, "scales"_a, "threads"_a);
}

template <std::size_t in_bytes, std::size_t out_bytes>
void bind_factor(nb::module_ &m, const char *name, Field field) {
    m.def(
        name,
        [field](nb::handle src, nb::handle out, float factor, int threads) {
            cast<in_bytes, out_bytes>(field, src, out, factor, 0.0f, threads);
        },
        "src"_a, "out"_a, "factor"_a, "threads"_a);
}

template <std::size_t in_bytes, std::size_t out_bytes>
void bind_affine(nb::module_ &m, const char *name, Field field) {
    m.def(
        name,
        [field](nb::handle src, nb::handle out, float minimum, float scale, int threads) {
            cast<in_bytes, out_bytes>(field, src, out, minimum, scale, threads);
        },
        "src"_a, "out"_a, "minimum"_a, "scale"_a, "threads"_a);
}

}  // namespace

void bind_casts(nb::module_ &m) {
    bind_plain<2, 4>(m, "f16_to_f32", &CastTable::f16_to_f32);
    bind_plain<4, 2>(m, "f32_to_f16", &CastTable::f32_to_f16);
    bind_plain<2, 4>(m, "bf16_to_f32", &CastTable::bf16_to_f32);
    bind_plain<4, 2>(m, "f32_to_bf16", &CastTable::f32_to_bf16);
    bind_affine<1, 4>(m, "u8_to_f32", &CastTable::u8_to_f32);
    bind_affine<4, 1>(m, "f32_to_u8", &CastTable::f32_to_u8);
    bind_factor<1, 4>(m, "i8_to_f32", &CastTable::i8_to_f32_div);
    bind_factor<4, 1>(m, "f32_to_i8", &CastTable::f32_to_i8_mul);
    bind_rows<1, 4>(m, "i8_to_f32_rows", &CastTable::i8_to_f32_mul);
    bind_rows<4, 1>(m, "f32_to_i8_rows", &CastTable::f32_to_i8_div);
    m.def("f32_min_max", &min_max, "src"_a, "threads"_a);
}

}  // namespace polyvec
