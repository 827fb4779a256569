// Product quantisation: rows from codes, and scores straight from codes by lookup tables.
#include <cmath>

#include "dispatch.hpp"
#include "threads.hpp"
#include "top_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace polyvec {
namespace {

using Books = Array<const float, 3>;

// Rows are centroids set side by side; `weights` (one a row) multiply them. The flat index of the first code without a
// centroid, or -1.
int64_t decode_product(Codes codes, Books books, nb::object weights, MatrixOut out, int threads) {
    size_t count = codes.shape(0), parts = codes.shape(1), size = books.shape(1), width = books.shape(2);
    if (books.shape(0) != parts || out.shape(0) != count || out.shape(1) != parts * width)
        throw nb::value_error("codes, codebooks and output disagree");
    Floats weight_array;
    const float *weight = nullptr;
    if (!weights.is_none()) {
        weight_array = nb::cast<Floats>(weights);
        if (weight_array.size() != count) throw nb::value_error("one weight a row is needed");
        weight = weight_array.data();
    }
    const uint8_t *data = codes.data();
    const float *centroids = books.data();
    float *rows = out.data();
    constexpr size_t grain = 2048;
    constexpr int64_t none = std::numeric_limits<int64_t>::max();
    std::vector<int64_t> bad(count_workers(count, threads, grain), none);
    [[maybe_unused]] const bool stream = width == 2 && parts % 2 == 0 && count * parts * width * sizeof(float) > (4u << 20);
    {
        nb::gil_scoped_release free_threads;
        parallel_for(count, threads, grain, 1, [=, &bad](size_t start, size_t stop, size_t worker) {
            for (size_t i = start; i < stop; ++i) {
                const uint8_t *code = data + i * parts;
                float *row = rows + i * parts * width;
                if (size < 256)
                    for (size_t p = 0; p < parts; ++p)
                        if (code[p] >= size) { bad[worker] = std::min(bad[worker], (int64_t)(i * parts + p)); return; }
#if defined(__x86_64__)
                if (stream && !((uintptr_t)row % 16)) { // pairs of centroids, past the cache: nobody reads them soon
                    const __m128 by = _mm_set1_ps(weight ? weight[i] : 1.0f);
                    for (size_t p = 0; p < parts; p += 2) {
                        __m128 pair = _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64 *>(centroids + (p * size + code[p]) * 2));
                        pair = _mm_loadh_pi(pair, reinterpret_cast<const __m64 *>(centroids + ((p + 1) * size + code[p + 1]) * 2));
                        _mm_stream_ps(row + 2 * p, weight ? _mm_mul_ps(pair, by) : pair);
                    }
                    continue;
                }
#endif
                if (width == 2) // the common shape, a 64-bit move each
                    for (size_t p = 0; p < parts; ++p) std::memcpy(row + 2 * p, centroids + (p * size + code[p]) * 2, 8);
                else if (width == 1)
                    for (size_t p = 0; p < parts; ++p) row[p] = centroids[p * size + code[p]];
                else
                    for (size_t p = 0; p < parts; ++p)
                        std::memcpy(row + p * width, centroids + (p * size + code[p]) * width, width * sizeof(float));
                if (weight)
                    for (size_t d = 0; d < parts * width; ++d) row[d] *= weight[i];
            }
        });
    }
    const int64_t first = *std::min_element(bad.begin(), bad.end());
    return first == none ? -1 : first;
}

// out = rows . turn, each value summed over the rows' components in order: so one row gives what many give.
POLYVEC_CLONES void rotate_range(const float *rows, const float *turn, float *out, size_t start, size_t stop, size_t dim) {
    constexpr size_t wide = 64;
    for (size_t i = start; i < stop; ++i)
        for (size_t from = 0; from < dim; from += wide) {
            float sums[wide] = {};
            const float *row = rows + i * dim;
            if (from + wide <= dim) {
                for (size_t k = 0; k < dim; ++k) {
                    const float *column = turn + k * dim + from;
                    for (size_t j = 0; j < wide; ++j) sums[j] += row[k] * column[j];
                }
                std::memcpy(out + i * dim + from, sums, sizeof sums);
            } else {
                size_t rest = dim - from;
                for (size_t k = 0; k < dim; ++k)
                    for (size_t j = 0; j < rest; ++j) sums[j] += row[k] * turn[k * dim + from + j];
                std::memcpy(out + i * dim + from, sums, rest * sizeof(float));
            }
        }
}

void rotate_rows(Matrix rows, Matrix turn, MatrixOut out, int threads) {
    size_t dim = rows.shape(1);
    if (turn.shape(0) != dim || turn.shape(1) != dim || out.shape(0) != rows.shape(0) || out.shape(1) != dim)
        throw nb::value_error("rows, rotation and output disagree");
    const float *from = rows.data(), *by = turn.data();
    float *to = out.data();
    nb::gil_scoped_release free_threads;
    parallel_for(rows.shape(0), threads, 256, 1, [=](size_t start, size_t stop) { rotate_range(from, by, to, start, stop, dim); });
}

// sum over the parts, in order, of tables[part][code], in float32, times the row's weight.
inline float score(const uint8_t *code, const float *tables, size_t parts, size_t size) {
    float sum = 0;
    for (size_t p = 0; p < parts; ++p) sum += tables[p * size + code[p]];
    return sum;
}

void check_codes(const uint8_t *codes, size_t count, size_t size) {
    if (size >= 256) return;
    uint8_t high = 0;
    for (size_t i = 0; i < count; ++i) high = std::max(high, codes[i]);
    if (count && high >= size) throw nb::index_error("a code without a centroid");
}

nb::ndarray<nb::numpy, float> score_product(Codes codes, Matrix tables, Longs rows) {
    size_t parts = codes.shape(1), size = tables.shape(1), count = rows.size();
    if (tables.shape(0) != parts) throw nb::value_error("one table a part is needed");
    for (size_t i = 0; i < count; ++i) {
        if (rows.data()[i] < 0 || (size_t)rows.data()[i] >= codes.shape(0)) throw nb::index_error("a row beyond the codes");
        check_codes(codes.data() + (size_t)rows.data()[i] * parts, parts, size);
    }
    float *out = allocate<float>(count);
    for (size_t i = 0; i < count; ++i) out[i] = score(codes.data() + (size_t)rows.data()[i] * parts, tables.data(), parts, size);
    return own<float>(out, {count});
}

// Candidates from codes as the file has them, row by row, with float32 tables; `margin` covers what their roundings may
// change.
nb::ndarray<nb::numpy, int64_t> scan_product(Codes codes, Matrix tables, Floats weights, size_t k, float margin,
                                             int threads) {
    size_t count = codes.shape(0), parts = codes.shape(1), size = tables.shape(1);
    if (tables.shape(0) != parts || weights.size() != count) throw nb::value_error("codes, tables and weights disagree");
    check_codes(codes.data(), count * parts, size);
    constexpr size_t grain = 8192;
    std::vector<TopRows> best(count_workers(count, threads, grain), TopRows(k, margin));
    const uint8_t *data = codes.data();
    const float *table = tables.data(), *weight = weights.data();
    {
        nb::gil_scoped_release free_threads;
        parallel_for(count, threads, grain, 1, [=, &best](size_t start, size_t stop, size_t worker) {
            float scores[512];
            for (size_t from = start; from < stop; from += 512) {
                size_t n = std::min<size_t>(512, stop - from), i = 0;
                for (; i + 4 <= n; i += 4) { // four rows at a time hide the latency of the table
                    const uint8_t *c = data + (from + i) * parts;
                    float a0 = 0, a1 = 0, a2 = 0, a3 = 0;
                    for (size_t p = 0; p < parts; ++p) {
                        const float *t = table + p * size;
                        a0 += t[c[p]];
                        a1 += t[c[p + parts]];
                        a2 += t[c[p + 2 * parts]];
                        a3 += t[c[p + 3 * parts]];
                    }
                    scores[i] = a0 * weight[from + i];
                    scores[i + 1] = a1 * weight[from + i + 1];
                    scores[i + 2] = a2 * weight[from + i + 2];
                    scores[i + 3] = a3 * weight[from + i + 3];
                }
                for (; i < n; ++i) scores[i] = score(data + (from + i) * parts, table, parts, size) * weight[from + i];
                best[worker].push(scores, n, (int64_t)from);
            }
        });
        for (size_t t = 1; t < best.size(); ++t) best[0].merge(best[t]);
    }
    return best[0].rows();
}

// ---- 64 rows at a time ---------------------------------------------------------------------------------

// Codes with the rows of each 64 side by side: [ceil(n / 64)][parts][64], the last group filled with code 0.
nb::ndarray<nb::numpy, uint8_t> pack_product(Codes codes, size_t size, int threads) {
    size_t count = codes.shape(0), parts = codes.shape(1), groups = (count + 63) / 64;
    check_codes(codes.data(), count * parts, size);
    uint8_t *out = allocate<uint8_t>(groups * parts * 64);
    const uint8_t *data = codes.data();
    {
        nb::gil_scoped_release free_threads;
        parallel_for(groups, threads, 64, 1, [=](size_t start, size_t stop) {
            for (size_t g = start; g < stop; ++g)
                for (size_t i = 0; i < std::min<size_t>(64, count - g * 64); ++i)
                    for (size_t p = 0; p < parts; ++p) out[(g * parts + p) * 64 + i] = data[(g * 64 + i) * parts + p];
        });
    }
    return own<uint8_t>(out, {groups, parts, 64});
}

bool can_scan_packed() {
#if defined(__x86_64__)
    return current_cpu() == Cpu::avx512 && __builtin_cpu_supports("avx512vbmi");
#else
    return false;
#endif
}

#if defined(__x86_64__)
// The integer sums of N groups of 64 rows: each part's 256 one-byte entries sit in four registers, loaded once for all.
template <int N>
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void sum_groups(const uint8_t *codes, const uint8_t *tables,
                                                                      size_t parts, uint32_t *sums) {
    const __m512i low_byte = _mm512_set1_epi16(0xFF);
    std::memset(sums, 0, N * 64 * sizeof(uint32_t));
    for (size_t from = 0; from < parts; from += 256) { // 256 x 255 still fits 16 bits
        size_t to = std::min(parts, from + 256);
        __m512i even[N], odd[N];
        for (int g = 0; g < N; ++g) even[g] = odd[g] = _mm512_setzero_si512();
        for (size_t p = from; p < to; ++p) {
            const uint8_t *t = tables + p * 256;
            const __m512i t0 = _mm512_loadu_si512(t), t1 = _mm512_loadu_si512(t + 64);
            const __m512i t2 = _mm512_loadu_si512(t + 128), t3 = _mm512_loadu_si512(t + 192);
            for (int g = 0; g < N; ++g) {
                const uint8_t *at = codes + ((size_t)g * parts + p) * 64;
                _mm_prefetch(reinterpret_cast<const char *>(at + (size_t)N * parts * 64), _MM_HINT_T1);
                __m512i code = _mm512_loadu_si512(at);
                __m512i low = _mm512_permutex2var_epi8(t0, code, t1), high = _mm512_permutex2var_epi8(t2, code, t3);
                __m512i value = _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), low, high);
                even[g] = _mm512_add_epi16(even[g], _mm512_and_si512(value, low_byte));
                odd[g] = _mm512_add_epi16(odd[g], _mm512_srli_epi16(value, 8));
            }
        }
        for (int g = 0; g < N; ++g) {
            alignas(64) uint16_t e[32], o[32];
            _mm512_store_si512(e, even[g]);
            _mm512_store_si512(o, odd[g]);
            for (int i = 0; i < 32; ++i) {
                sums[g * 64 + 2 * i] += e[i];
                sums[g * 64 + 2 * i + 1] += o[i];
            }
        }
    }
}
#endif

// Candidates from packed codes: tables in steps of one byte, base + step * sum, times the weight; `margin` covers what the
// rounding of the tables may change.
nb::ndarray<nb::numpy, int64_t> scan_packed(Array<const uint8_t, 3> packed,
                                            Codes tables, Floats weights, float base, float step, size_t k, float margin,
                                            int threads) {
    size_t groups = packed.shape(0), parts = packed.shape(1), count = weights.size();
    if (packed.shape(2) != 64 || tables.shape(0) != parts || tables.shape(1) != 256 || (count + 63) / 64 != groups)
        throw nb::value_error("packed codes, tables and weights disagree");
    if (!can_scan_packed()) throw nb::value_error("this processor has no AVX-512 VBMI");
    constexpr size_t grain = 128;
    std::vector<TopRows> best(count_workers(groups, threads, grain), TopRows(k, margin));
    const uint8_t *data = packed.data(), *table = tables.data();
    const float *weight = weights.data();
#if defined(__x86_64__)
    {
        nb::gil_scoped_release free_threads;
        parallel_for(groups, threads, grain, 1, [=, &best](size_t start, size_t stop, size_t worker) {
            constexpr size_t many = 4;
            uint32_t sums[64 * many];
            float scores[64 * many];
            for (size_t g = start; g < stop;) {
                size_t groups_now = g + many <= stop ? many : 1;
                if (groups_now == many) sum_groups<many>(data + g * parts * 64, table, parts, sums);
                else sum_groups<1>(data + g * parts * 64, table, parts, sums);
                size_t n = std::min<size_t>(64 * groups_now, count - g * 64);
                for (size_t i = 0; i < n; ++i) scores[i] = (base + step * (float)sums[i]) * weight[g * 64 + i];
                best[worker].push(scores, n, (int64_t)(g * 64));
                g += groups_now;
            }
        });
        for (size_t t = 1; t < best.size(); ++t) best[0].merge(best[t]);
    }
#endif
    return best[0].rows();
}

}  // namespace

void bind_product(nb::module_ &m) {
    m.def("decode_product", &decode_product, nb::arg("codes"), nb::arg("books"), nb::arg("weights").none(), nb::arg("out"),
          nb::arg("threads"));
    m.def("rotate_rows", &rotate_rows);
    m.def("score_product", &score_product);
    m.def("scan_product", &scan_product);
    m.def("pack_product", &pack_product);
    m.def("can_scan_packed", &can_scan_packed);
    m.def("scan_packed", &scan_packed);
}

}  // namespace polyvec
