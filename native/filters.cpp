// Passing tiles of approximate scores through a sieve, and the one-query scan that makes its own scores.
#include "sieves.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "dispatch.hpp"

#if POLYVEC_X86
#include <immintrin.h>
#endif

namespace nb = nanobind;

namespace polyvec {
namespace {

template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// ---- many queries: a tile is rows x queries ------------------------------------------------------------------

template <class Score>
void pass_portable(Sieve &sieve, const Score *scores, size_t stride, size_t first, size_t rows) {
    const RowTerms &t = sieve.terms;
    const float *lengths = sieve.asked.length.data(), *errors = sieve.asked.error.data(), *shares = sieve.asked.share.data();
    const float *limits = sieve.limit.data();
    const size_t queries = sieve.queries;
    for (size_t i = 0; i < rows; ++i) {
        const size_t row = first + i;
        const Score *line = scores + i * stride;
        const float scale = t.scale[row], error = t.error[row], length = t.length[row], exact = t.exact[row];
        for (size_t j = 0; j < queries; ++j) {
            const float upper =
                static_cast<float>(line[j]) * scale + (lengths[j] * error + (errors[j] * length + shares[j] * exact));
            if (!(upper < limits[j])) sieve.keep(j, row, upper);
        }
    }
}

#if POLYVEC_X86
__attribute__((target("avx512f"))) inline __m512 load_scores(const int32_t *p) {
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
}
__attribute__((target("avx512f"))) inline __m512 load_scores(const float *p) { return _mm512_loadu_ps(p); }
__attribute__((target("avx512f"))) inline __m512 load_some(const int32_t *p, __mmask16 m) {
    return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(m, p));
}
__attribute__((target("avx512f"))) inline __m512 load_some(const float *p, __mmask16 m) {
    return _mm512_maskz_loadu_ps(m, p);
}

__attribute__((target("avx512f"), noinline)) void keep_lanes(Sieve &sieve, unsigned mask, __m512 upper, size_t j, size_t row) {
    alignas(64) float values[GROUP];
    _mm512_store_ps(values, upper);
    while (mask) {
        const unsigned lane = static_cast<unsigned>(__builtin_ctz(mask));
        mask &= mask - 1;
        // The threshold may have risen since the comparison; asking again saves a push.
        if (!(values[lane] < sieve.limit[j + lane])) sieve.keep(j + lane, row, values[lane]);
    }
}

template <class Score>
__attribute__((target("avx512f"))) void pass_avx512(Sieve &sieve, const Score *scores, size_t stride, size_t first,
                                                    size_t rows) {
    const RowTerms &t = sieve.terms;
    const size_t queries = sieve.queries;
    const QueryTerms &asked = sieve.asked;
    const float *lengths = asked.length.data(), *errors = asked.error.data(), *shares = asked.share.data();
    const float *limits = sieve.limit.data();
    size_t i = 0;
    for (; i + 2 <= rows; i += 2) {  // two rows a turn: the queries' terms are loaded once for both
        const size_t row = first + i;
        const Score *line = scores + i * stride;
        const __m512 scale0 = _mm512_set1_ps(t.scale[row]), scale1 = _mm512_set1_ps(t.scale[row + 1]);
        const __m512 error0 = _mm512_set1_ps(t.error[row]), error1 = _mm512_set1_ps(t.error[row + 1]);
        const __m512 length0 = _mm512_set1_ps(t.length[row]), length1 = _mm512_set1_ps(t.length[row + 1]);
        const __m512 exact0 = _mm512_set1_ps(t.exact[row]), exact1 = _mm512_set1_ps(t.exact[row + 1]);
        for (size_t j = 0; j < queries; j += GROUP) {
            const __m512 length = _mm512_loadu_ps(lengths + j), error = _mm512_loadu_ps(errors + j);
            const __m512 share = _mm512_loadu_ps(shares + j), limit = _mm512_loadu_ps(limits + j);
            __m512 s0, s1;
            __mmask16 live = 0xffff;
            if (j + GROUP <= queries) {
                s0 = load_scores(line + j);
                s1 = load_scores(line + stride + j);
            } else {
                live = static_cast<__mmask16>((1u << (queries - j)) - 1);
                s0 = load_some(line + j, live);
                s1 = load_some(line + stride + j, live);
            }
            const __m512 u0 = _mm512_fmadd_ps(
                s0, scale0, _mm512_fmadd_ps(length, error0, _mm512_fmadd_ps(error, length0, _mm512_mul_ps(share, exact0))));
            const __m512 u1 = _mm512_fmadd_ps(
                s1, scale1, _mm512_fmadd_ps(length, error1, _mm512_fmadd_ps(error, length1, _mm512_mul_ps(share, exact1))));
            const unsigned m0 = _mm512_mask_cmp_ps_mask(live, u0, limit, _CMP_NLT_UQ);
            const unsigned m1 = _mm512_mask_cmp_ps_mask(live, u1, limit, _CMP_NLT_UQ);
            if (__builtin_expect((m0 | m1) != 0, 0)) {
                if (m0) keep_lanes(sieve, m0, u0, j, row);
                if (m1) keep_lanes(sieve, m1, u1, j, row + 1);
            }
        }
    }
    if (i < rows) pass_portable(sieve, scores + i * stride, stride, first + i, rows - i);
}

__attribute__((target("avx2,fma"))) inline __m256 load_scores8(const int32_t *p) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}
__attribute__((target("avx2,fma"))) inline __m256 load_scores8(const float *p) { return _mm256_loadu_ps(p); }

template <class Score>
__attribute__((target("avx2,fma"))) void pass_avx2(Sieve &sieve, const Score *scores, size_t stride, size_t first,
                                                   size_t rows) {
    const RowTerms &t = sieve.terms;
    const QueryTerms &asked = sieve.asked;
    const size_t whole = sieve.queries / 8 * 8;
    for (size_t i = 0; i < rows; ++i) {
        const size_t row = first + i;
        const Score *line = scores + i * stride;
        const __m256 scale = _mm256_set1_ps(t.scale[row]), error = _mm256_set1_ps(t.error[row]);
        const __m256 length = _mm256_set1_ps(t.length[row]), exact = _mm256_set1_ps(t.exact[row]);
        for (size_t j = 0; j < whole; j += 8) {
            const __m256 rest = _mm256_fmadd_ps(
                _mm256_loadu_ps(&asked.length[j]), error,
                _mm256_fmadd_ps(_mm256_loadu_ps(&asked.error[j]), length, _mm256_mul_ps(_mm256_loadu_ps(&asked.share[j]), exact)));
            const __m256 upper = _mm256_fmadd_ps(load_scores8(line + j), scale, rest);
            unsigned mask = static_cast<unsigned>(
                _mm256_movemask_ps(_mm256_cmp_ps(upper, _mm256_loadu_ps(&sieve.limit[j]), _CMP_NLT_UQ)));
            if (__builtin_expect(mask != 0, 0)) {
                alignas(32) float values[8];
                _mm256_store_ps(values, upper);
                while (mask) {
                    const unsigned lane = static_cast<unsigned>(__builtin_ctz(mask));
                    mask &= mask - 1;
                    if (!(values[lane] < sieve.limit[j + lane])) sieve.keep(j + lane, row, values[lane]);
                }
            }
        }
        for (size_t j = whole; j < sieve.queries; ++j) {
            const float upper = sieve.upper(j, row, static_cast<float>(line[j]));
            if (!(upper < sieve.limit[j])) sieve.keep(j, row, upper);
        }
    }
}
#endif

template <class Score>
void pass_tile(Sieve &sieve, const Score *scores, size_t stride, size_t first, size_t rows, [[maybe_unused]] Cpu cpu) {
#if POLYVEC_X86
    if (cpu == Cpu::avx512) return pass_avx512(sieve, scores, stride, first, rows);
    if (cpu == Cpu::avx2) return pass_avx2(sieve, scores, stride, first, rows);
#endif
    pass_portable(sieve, scores, stride, first, rows);
}

// Scores may be wider than the queries: a tile is reused for batches of every size.
template <class Score> size_t push(Sieve &sieve, Matrix<Score> scores, size_t first, size_t rows) {
    if (scores.shape(0) < rows || scores.shape(1) < sieve.queries) throw std::invalid_argument("push: the tile is too small");
    if (first > sieve.terms.rows || rows > sieve.terms.rows - first) throw std::invalid_argument("push: rows beyond the terms");
    const Score *data = scores.data();
    const size_t stride = scores.shape(1);
    const Cpu cpu = current_cpu();
    nb::gil_scoped_release release;
    const PlainFloats plain;
    pass_tile(sieve, data, stride, first, rows, cpu);
    return sieve.total;
}

// ---- one query: scores of a strip of rows, then the strip through the sieve -----------------------------------

using Dots = void (*)(const int8_t *codes, size_t dim, size_t rows, const int8_t *query, int32_t *out);

void dots_portable(const int8_t *codes, size_t dim, size_t rows, const int8_t *query, int32_t *out) {
    for (size_t i = 0; i < rows; ++i, codes += dim) {
        int32_t sum = 0;
        for (size_t d = 0; d < dim; ++d) sum += static_cast<int32_t>(codes[d]) * query[d];
        out[i] = sum;
    }
}

#if POLYVEC_X86
__attribute__((target("avx2"))) inline int32_t sum_lanes(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

__attribute__((target("avx2"))) void dots_avx2(const int8_t *codes, size_t dim, size_t rows, const int8_t *query,
                                               int32_t *out) {
    const size_t whole = dim / 16 * 16;
    for (size_t i = 0; i < rows; ++i, codes += dim) {
        __m256i sum = _mm256_setzero_si256();
        for (size_t d = 0; d < whole; d += 16) {  // int16 pairs: exact for every int8, -128 too
            const __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(codes + d)));
            const __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(query + d)));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
        }
        int32_t total = sum_lanes(sum);
        for (size_t d = whole; d < dim; ++d) total += static_cast<int32_t>(codes[d]) * query[d];
        out[i] = total;
    }
}

// vpdpbusd wants one unsigned side: (x + 128) . y - 128 * sum(y), exact in int32 for dim < 2^15.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void dots_vnni(const int8_t *codes, size_t dim, size_t rows,
                                                                               const int8_t *query, int32_t *out) {
    const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
    int32_t shift = 0;
    for (size_t d = 0; d < dim; ++d) shift += query[d];
    shift *= 128;
    const size_t whole = dim / 64 * 64;
    const __mmask64 tail = dim > whole ? (~0ull >> (64 - (dim - whole))) : 0;
    const __m512i last = _mm512_maskz_loadu_epi8(tail, query + whole);
    size_t i = 0;
    for (; i + 4 <= rows; i += 4, codes += 4 * dim) {
        __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
        for (size_t d = 0; d < whole; d += 64) {
            const __m512i y = _mm512_loadu_si512(query + d);
            s0 = _mm512_dpbusd_epi32(s0, _mm512_xor_si512(_mm512_loadu_si512(codes + d), flip), y);
            s1 = _mm512_dpbusd_epi32(s1, _mm512_xor_si512(_mm512_loadu_si512(codes + dim + d), flip), y);
            s2 = _mm512_dpbusd_epi32(s2, _mm512_xor_si512(_mm512_loadu_si512(codes + 2 * dim + d), flip), y);
            s3 = _mm512_dpbusd_epi32(s3, _mm512_xor_si512(_mm512_loadu_si512(codes + 3 * dim + d), flip), y);
        }
        if (tail) {
            s0 = _mm512_dpbusd_epi32(s0, _mm512_xor_si512(_mm512_maskz_loadu_epi8(tail, codes + whole), flip), last);
            s1 = _mm512_dpbusd_epi32(s1, _mm512_xor_si512(_mm512_maskz_loadu_epi8(tail, codes + dim + whole), flip), last);
            s2 = _mm512_dpbusd_epi32(s2, _mm512_xor_si512(_mm512_maskz_loadu_epi8(tail, codes + 2 * dim + whole), flip), last);
            s3 = _mm512_dpbusd_epi32(s3, _mm512_xor_si512(_mm512_maskz_loadu_epi8(tail, codes + 3 * dim + whole), flip), last);
        }
        out[i] = _mm512_reduce_add_epi32(s0) - shift;
        out[i + 1] = _mm512_reduce_add_epi32(s1) - shift;
        out[i + 2] = _mm512_reduce_add_epi32(s2) - shift;
        out[i + 3] = _mm512_reduce_add_epi32(s3) - shift;
        _mm_prefetch(reinterpret_cast<const char *>(codes + 16 * dim), _MM_HINT_T0);
    }
    if (i < rows) dots_avx2(codes, dim, rows - i, query, out + i);
}
#endif

Dots pick_dots([[maybe_unused]] size_t dim, [[maybe_unused]] Cpu cpu) {
#if POLYVEC_X86
    static const bool vnni = __builtin_cpu_supports("avx512vnni");
    if (cpu == Cpu::avx512 && vnni && dim < (1u << 15)) return dots_vnni;
    if (cpu == Cpu::avx512 || cpu == Cpu::avx2) return dots_avx2;
#endif
    return dots_portable;
}

// One query's strip: the row terms are the vectors now, the query's terms the scalars.
void pass_strip(Sieve &sieve, size_t query, const int32_t *scores, size_t first, size_t rows) {
    const RowTerms &t = sieve.terms;
    const float length = sieve.asked.length[query], error = sieve.asked.error[query], share = sieve.asked.share[query];
    constexpr size_t SOME = 64;
    float uppers[SOME];
    for (size_t i = 0; i < rows; i += SOME) {
        const size_t n = std::min(SOME, rows - i), row = first + i;
        for (size_t l = 0; l < n; ++l)
            uppers[l] = static_cast<float>(scores[i + l]) * t.scale[row + l] +
                        (length * t.error[row + l] + (error * t.length[row + l] + share * t.exact[row + l]));
        const float limit = sieve.limit[query];
        int any = 0;
        for (size_t l = 0; l < n; ++l) any |= !(uppers[l] < limit);
        if (any)
            for (size_t l = 0; l < n; ++l)
                if (!(uppers[l] < sieve.limit[query])) sieve.keep(query, row + l, uppers[l]);
    }
}

#if POLYVEC_X86
__attribute__((target("avx512f"))) void strip_avx512(Sieve &sieve, size_t query, const int32_t *scores, size_t first, size_t rows) {
    const RowTerms &t = sieve.terms;
    const __m512 length = _mm512_set1_ps(sieve.asked.length[query]), error = _mm512_set1_ps(sieve.asked.error[query]);
    const __m512 share = _mm512_set1_ps(sieve.asked.share[query]);
    __m512 limit = _mm512_set1_ps(sieve.limit[query]);
    size_t i = 0;
    for (; i + GROUP <= rows; i += GROUP) {
        const size_t row = first + i;
        const __m512 rest = _mm512_fmadd_ps(
            length, _mm512_loadu_ps(t.error + row),
            _mm512_fmadd_ps(error, _mm512_loadu_ps(t.length + row), _mm512_mul_ps(share, _mm512_loadu_ps(t.exact + row))));
        const __m512 upper = _mm512_fmadd_ps(load_scores(scores + i), _mm512_loadu_ps(t.scale + row), rest);
        unsigned mask = _mm512_cmp_ps_mask(upper, limit, _CMP_NLT_UQ);
        if (__builtin_expect(mask != 0, 0)) {
            alignas(64) float values[GROUP];
            _mm512_store_ps(values, upper);
            while (mask) {
                const unsigned lane = static_cast<unsigned>(__builtin_ctz(mask));
                mask &= mask - 1;
                if (!(values[lane] < sieve.limit[query])) sieve.keep(query, row + lane, values[lane]);
            }
            limit = _mm512_set1_ps(sieve.limit[query]);
        }
    }
    if (i < rows) pass_strip(sieve, query, scores + i, first + i, rows - i);
}
#endif

size_t scan(Sieve &sieve, Matrix<int8_t> codes, Matrix<int8_t> queries, size_t first, size_t stop) {
    const size_t dim = codes.shape(1);
    if (queries.shape(0) != sieve.queries || queries.shape(1) != dim) throw std::invalid_argument("scan: queries do not fit");
    if (stop > codes.shape(0) || stop > sieve.terms.rows || first > stop) throw std::invalid_argument("scan: rows beyond the codes");
    const int8_t *base = codes.data(), *q = queries.data();
    const Cpu cpu = current_cpu();
    const Dots dots = pick_dots(dim, cpu);
    nb::gil_scoped_release release;
    const PlainFloats plain;
    constexpr size_t STRIP = 1024;
    int32_t scores[STRIP];
    for (size_t row = first; row < stop; row += STRIP) {
        const size_t rows = std::min(STRIP, stop - row);
        for (size_t j = 0; j < sieve.queries; ++j) {
            dots(base + row * dim, dim, rows, q + j * dim, scores);
#if POLYVEC_X86
            if (cpu == Cpu::avx512) {
                strip_avx512(sieve, j, scores, row, rows);
                continue;
            }
#endif
            pass_strip(sieve, j, scores, row, rows);
        }
    }
    return sieve.total;
}

template <class T> const T *checked(const Vector<T> &v, size_t n) {
    if (v.shape(0) != n) throw std::invalid_argument("the arrays' lengths differ");
    return v.data();
}

}  // namespace

void bind_filters(nb::module_ &m) {
    nb::class_<Sieve>(m, "Sieve", "Candidates of an exact search, one list a query; see docs/exact-search.md.")
        .def("__init__",
             [](Sieve *self, size_t k, Vector<float> length, Vector<float> error, Vector<float> share, Vector<double> alpha,
                Vector<double> beta, Vector<double> slack) {
                 const size_t n = length.shape(0);
                 if (k == 0) throw std::invalid_argument("k must be positive");
                 new (self) Sieve(n, k, length.data(), checked(error, n), checked(share, n), checked(alpha, n),
                                  checked(beta, n), checked(slack, n));
             })
        .def("set_rows",
             [](Sieve &s, Vector<float> scale, Vector<float> error, Vector<float> length, Vector<float> exact) {
                 const size_t n = scale.shape(0);
                 if (n > 0x7fffffff) throw std::invalid_argument("a block holds at most 2^31 - 1 rows");
                 s.terms = {scale.data(), checked(error, n), checked(length, n), checked(exact, n), n};
             },
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>())
        .def("raise_to",
             [](Sieve &s, Vector<double> keys) {
                 checked(keys, s.queries);
                 for (size_t j = 0; j < s.queries; ++j) s.raise_to(j, keys.data()[j]);
             })
        .def("push_int", &push<int32_t>)
        .def("push_float", &push<float>)
        .def("scan", &scan)
        .def("rows",  // the block's rows among the candidates, with repeats
             [](const Sieve &s) {
                 auto *rows = new std::vector<int32_t>();
                 for (const auto &mine : s.held)
                     for (const auto &c : mine) rows->push_back(c.row);
                 nb::capsule owner(rows, [](void *p) noexcept { delete static_cast<std::vector<int32_t> *>(p); });
                 return nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>(rows->data(), {rows->size()}, owner);
             })
        .def_prop_ro("total", [](const Sieve &s) { return s.total; })
        .def_prop_ro("kept", [](const Sieve &s) { return s.kept; });
}

}  // namespace polyvec
