// Rows of a float matrix: gather, length, an 8-bit copy to search in, and exact scores of a few.
#include <cmath>

#include "dispatch.hpp"
#include "threads.hpp"
#include "top_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// a . b in float64: eight lanes, then 0+4, 1+5, 2+6, 3+7, then (0+2) + (1+3): an order NumPy can repeat.
POLYVEC_CLONES double dot(const float *a, const float *b, size_t dim) {
    double lanes[8] = {};
    size_t i = 0;
    for (; i + 8 <= dim; i += 8)
        for (size_t j = 0; j < 8; ++j) lanes[j] += (double)a[i + j] * (double)b[i + j];
    for (size_t j = 0; i + j < dim; ++j) lanes[j] += (double)a[i + j] * (double)b[i + j];
    for (size_t j = 0; j < 4; ++j) lanes[j] += lanes[j + 4];
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

void row_norms(Matrix matrix, FloatsOut norms, int threads) {
    size_t dim = matrix.shape(1);
    if (norms.size() != matrix.shape(0)) throw nb::value_error("one norm a row is needed");
    const float *data = matrix.data();
    float *out = norms.data();
    nb::gil_scoped_release free_threads;
    parallel_for(matrix.shape(0), threads, 4096, 1, [=](size_t start, size_t stop) {
        for (size_t i = start; i < stop; ++i) out[i] = (float)std::sqrt(dot(data + i * dim, data + i * dim, dim));
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

// ---- the 8-bit copy ------------------------------------------------------------------------------------

// codes = 128 + round(row / step), step = largest |component| / 127; gives back the error's squared length over the
// row's squared length, so that the caller knows how far a score may be off. A row whose sums float32 could not hold, or
// that is not finite, gets no codes and a scale of NaN: no scan returns it, the caller scores it.
POLYVEC_CLONES double quantize_row(const float *row, size_t dim, uint8_t *codes, float *scale) {
    constexpr size_t lanes = 16; // sums and maxima in lanes, which the compiler turns into registers
    float most[lanes] = {}, poison[lanes] = {}, high = 0, sound = 0;
    size_t whole = dim / lanes * lanes;
    for (size_t i = 0; i < whole; i += lanes)
        for (size_t j = 0; j < lanes; ++j) {
            float x = std::fabs(row[i + j]);
            most[j] = x > most[j] ? x : most[j];
            poison[j] += x * 0.0f; // NaN for a NaN or an infinity
        }
    for (size_t i = whole; i < dim; ++i) {
        most[0] = std::fabs(row[i]) > most[0] ? std::fabs(row[i]) : most[0];
        poison[0] += row[i] * 0.0f;
    }
    for (size_t j = 0; j < lanes; ++j) {
        high = most[j] > high ? most[j] : high;
        sound += poison[j];
    }
    if (!(sound == 0) || !(high >= 1e-30f && high <= 1e30f)) {
        std::memset(codes, 128, dim);
        *scale = sound == 0 && high == 0 ? 0.0f : std::numeric_limits<float>::quiet_NaN();
        return 0;
    }
    float by = 127.0f / high;
    float length[lanes] = {}, error[lanes] = {};
    auto put = [&](size_t i, size_t j) {
        float x = row[i] * by;
        int32_t code = (int32_t)(x + (x < 0 ? -0.5f : 0.5f));
        float off = x - (float)code;
        codes[i] = (uint8_t)(code + 128);
        length[j] += x * x;
        error[j] += off * off;
    };
    for (size_t i = 0; i < whole; i += lanes)
        for (size_t j = 0; j < lanes; ++j) put(i + j, j);
    for (size_t i = whole; i < dim; ++i) put(i, i - whole);
    double lengths = 0, errors = 0;
    for (size_t j = 0; j < lanes; ++j) {
        lengths += length[j];
        errors += error[j];
    }
    *scale = (float)(1.0 / std::sqrt(lengths)); // codes less 128, times this, are the unit row
    return errors / lengths;
}

// The largest relative error over the rows.
double quantize_rows(Matrix matrix, CodesOut codes,
                     FloatsOut scales, int threads) {
    size_t count = matrix.shape(0), dim = matrix.shape(1);
    if (codes.shape(0) != count || codes.shape(1) != dim || scales.size() != count)
        throw nb::value_error("codes and scales disagree with the matrix");
    constexpr size_t grain = 1024;
    std::vector<double> worst(count_workers(count, threads, grain), 0.0);
    const float *data = matrix.data();
    uint8_t *out = codes.data();
    float *scale = scales.data();
    {
        nb::gil_scoped_release free_threads;
        parallel_for(count, threads, grain, 1, [=, &worst](size_t start, size_t stop, size_t worker) {
            double high = worst[worker];
            for (size_t i = start; i < stop; ++i)
                high = std::max(high, quantize_row(data + i * dim, dim, out + i * dim, scale + i));
            worst[worker] = high;
        });
    }
    double high = 0;
    for (double w : worst) high = std::max(high, w);
    return std::sqrt(high) * (1 + 1e-4); // the float32 sums above are a little off themselves
}

int32_t dot_portable(const uint8_t *codes, const int8_t *query, size_t dim) {
    int32_t sum = 0;
    for (size_t i = 0; i < dim; ++i) sum += (int32_t)codes[i] * query[i];
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) int32_t dot_avx2(const uint8_t *codes, const int8_t *query, size_t dim) {
    __m256i sum = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 16 <= dim; i += 16) {
        __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(codes + i)));
        __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(query + i)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
    alignas(32) int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), sum);
    int32_t total = 0;
    for (int j = 0; j < 8; ++j) total += lanes[j];
    for (; i < dim; ++i) total += (int32_t)codes[i] * query[i];
    return total;
}

__attribute__((target("avx512bw,avx512vnni"))) int32_t dot_avx512(const uint8_t *codes, const int8_t *query, size_t dim) {
    __m512i sum = _mm512_setzero_si512();
    size_t i = 0;
    for (; i + 64 <= dim; i += 64)
        sum = _mm512_dpbusd_epi32(sum, _mm512_loadu_si512(codes + i), _mm512_loadu_si512(query + i));
    if (i < dim) {
        __mmask64 rest = ~0ull >> (64 - (dim - i));
        sum = _mm512_dpbusd_epi32(sum, _mm512_maskz_loadu_epi8(rest, codes + i), _mm512_maskz_loadu_epi8(rest, query + i));
    }
    return _mm512_reduce_add_epi32(sum);
}
#endif

// Rows whose unit vector may be among the k nearest to the query: approximate scores in 8 bits.
nb::ndarray<nb::numpy, int64_t> scan_codes(Codes codes, Floats scales,
                                           Array<const int8_t, 1> query,
                                           float query_scale, size_t k, float margin, int threads) {
    size_t count = codes.shape(0), dim = codes.shape(1);
    if (query.size() != dim || scales.size() != count) throw nb::value_error("query, scales and codes disagree");
    if (dim > 65536) throw nb::value_error("more than 65,536 dimensions overflow 32-bit sums");
    auto product = dot_portable;
#if defined(__x86_64__)
    const Cpu path = current_cpu();
    if (path >= Cpu::avx2) product = dot_avx2;
    if (path == Cpu::avx512 && __builtin_cpu_supports("avx512vnni")) product = dot_avx512;
#endif
    int32_t offset = 0;
    for (size_t i = 0; i < dim; ++i) offset += 128 * (int32_t)query.data()[i];
    constexpr size_t grain = 8192;
    std::vector<TopRows> parts(count_workers(count, threads, grain), TopRows(k, margin));
    const uint8_t *data = codes.data();
    const int8_t *q = query.data();
    const float *scale = scales.data();
    {
        nb::gil_scoped_release free_threads;
        parallel_for(count, threads, grain, 1, [=, &parts](size_t start, size_t stop, size_t worker) {
            float scores[512];
            for (size_t from = start; from < stop; from += 512) {
                size_t n = std::min<size_t>(512, stop - from);
                for (size_t i = 0; i < n; ++i) {
                    const uint8_t *row = data + (from + i) * dim;
                    for (size_t b = 0; b < dim; b += 64) __builtin_prefetch(row + 16 * dim + b, 0, 2);
                    scores[i] = (float)(product(row, q, dim) - offset) * scale[from + i] * query_scale;
                }
                parts[worker].push(scores, n, (int64_t)from);
            }
        });
        for (size_t t = 1; t < parts.size(); ++t) parts[0].merge(parts[t]);
    }
    return parts[0].rows();
}

#if defined(__x86_64__)
// One row against four queries that lie `stride` apart: the row is loaded once, the four sums are folded together.
__attribute__((target("avx512f,avx512bw,avx512vnni"))) inline void
dot4_avx512(const uint8_t *row, const int8_t *query, size_t stride, size_t dim, const int32_t *offsets, const float *by,
            float scale, float *out, size_t apart) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    size_t whole = dim / 64 * 64;
    for (size_t i = 0; i < whole; i += 64) {
        __m512i x = _mm512_loadu_si512(row + i);
        a = _mm512_dpbusd_epi32(a, x, _mm512_loadu_si512(query + i));
        b = _mm512_dpbusd_epi32(b, x, _mm512_loadu_si512(query + stride + i));
        c = _mm512_dpbusd_epi32(c, x, _mm512_loadu_si512(query + 2 * stride + i));
        d = _mm512_dpbusd_epi32(d, x, _mm512_loadu_si512(query + 3 * stride + i));
    }
    if (whole < dim) { // queries are padded with zeros, so only the row's end needs a mask
        size_t i = whole;
        __m512i x = _mm512_maskz_loadu_epi8(~0ull >> (64 - (dim - i)), row + i);
        a = _mm512_dpbusd_epi32(a, x, _mm512_loadu_si512(query + i));
        b = _mm512_dpbusd_epi32(b, x, _mm512_loadu_si512(query + stride + i));
        c = _mm512_dpbusd_epi32(c, x, _mm512_loadu_si512(query + 2 * stride + i));
        d = _mm512_dpbusd_epi32(d, x, _mm512_loadu_si512(query + 3 * stride + i));
    }
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    __m128i shifted = _mm_sub_epi32(sums, _mm_loadu_si128(reinterpret_cast<const __m128i *>(offsets)));
    __m128 scores = _mm_mul_ps(_mm_mul_ps(_mm_cvtepi32_ps(shifted), _mm_set1_ps(scale)), _mm_loadu_ps(by));
    alignas(16) float four[4];
    _mm_store_ps(four, scores);
    for (size_t j = 0; j < 4; ++j) out[j * apart] = four[j];
}
#endif

// `scan_codes` for many queries: rows are read once for all of them. Queries are (n, stride) with zeros from dim on.
nb::list scan_codes_many(Codes codes, Floats scales,
                         Array<const int8_t, 2> queries, Floats query_scales,
                         Floats margins, size_t k, int threads) {
    size_t count = codes.shape(0), dim = codes.shape(1), asked = queries.shape(0), stride = queries.shape(1);
    if (stride % 64 || stride < dim || scales.size() != count || query_scales.size() != asked || margins.size() != asked)
        throw nb::value_error("queries, scales and codes disagree");
    if (dim > 65536) throw nb::value_error("more than 65,536 dimensions overflow 32-bit sums");
    auto product = dot_portable;
    [[maybe_unused]] bool wide = false;
#if defined(__x86_64__)
    const Cpu path = current_cpu();
    if (path >= Cpu::avx2) product = dot_avx2;
    wide = path == Cpu::avx512 && __builtin_cpu_supports("avx512vnni");
    if (wide) product = dot_avx512;
#endif
    std::vector<int32_t> offsets(asked, 0);
    for (size_t q = 0; q < asked; ++q)
        for (size_t i = 0; i < dim; ++i) offsets[q] += 128 * (int32_t)queries.data()[q * stride + i];
    constexpr size_t grain = 4096;
    std::vector<std::vector<TopRows>> parts(count_workers(count, threads, grain));
    for (auto &part : parts)
        for (size_t q = 0; q < asked; ++q) part.emplace_back(k, margins.data()[q]);
    const uint8_t *data = codes.data();
    const int8_t *query = queries.data();
    const float *scale = scales.data(), *by = query_scales.data();
    {
        nb::gil_scoped_release free_threads;
        parallel_for(count, threads, grain, 1, [=, &parts, &offsets](size_t start, size_t stop, size_t worker) {
            constexpr size_t step = 256, apart = step + 16; // a power of two apart, rows of scores would share cache sets
            std::vector<float> scores(asked * apart);
            for (size_t from = start; from < stop; from += step) {
                size_t n = std::min(step, stop - from);
                for (size_t i = 0; i < n; ++i) {
                    const uint8_t *row = data + (from + i) * dim;
                    for (size_t b = 0; b < dim; b += 64) __builtin_prefetch(row + 16 * dim + b, 0, 2);
                    size_t q = 0;
#if defined(__x86_64__)
                    for (; wide && q + 4 <= asked; q += 4)
                        dot4_avx512(row, query + q * stride, stride, dim, offsets.data() + q, by + q, scale[from + i],
                                    scores.data() + q * apart + i, apart);
#endif
                    for (; q < asked; ++q)
                        scores[q * apart + i] = (float)(product(row, query + q * stride, dim) - offsets[q]) * scale[from + i] * by[q];
                }
                for (size_t q = 0; q < asked; ++q) parts[worker][q].push(scores.data() + q * apart, n, (int64_t)from);
            }
        });
        for (size_t t = 1; t < parts.size(); ++t)
            for (size_t q = 0; q < asked; ++q) parts[0][q].merge(parts[t][q]);
    }
    nb::list found;
    for (size_t q = 0; q < asked; ++q) found.append(parts[0][q].rows());
    return found;
}

// The candidates of many queries, block by block: scores has one row a query.
class Candidates {
  public:
    Candidates(size_t queries, size_t k, float margin) : best_(queries, TopRows(k, margin)) {}
    void push(Matrix scores, int64_t first, int threads) {
        if (scores.shape(0) != best_.size()) throw nb::value_error("one row of scores a query is needed");
        size_t count = scores.shape(1);
        const float *data = scores.data();
        nb::gil_scoped_release free_threads;
        parallel_for(best_.size(), threads, 8, 1, [=, this](size_t start, size_t stop) {
            for (size_t q = start; q < stop; ++q) best_[q].push(data + q * count, count, first);
        });
    }
    nb::ndarray<nb::numpy, int64_t> rows(size_t query) { return best_.at(query).rows(); }

  private:
    std::vector<TopRows> best_;
};

}  // namespace

void bind_rows(nb::module_ &m) {
    m.def("take_rows", &take_rows);
    m.def("row_norms", &row_norms);
    m.def("scale_rows", &scale_rows);
    m.def("quantize_rows", &quantize_rows);
    m.def("scan_codes", &scan_codes);
    m.def("scan_codes_many", &scan_codes_many);
    nb::class_<Candidates>(m, "Candidates")
        .def(nb::init<size_t, size_t, float>())
        .def("push", &Candidates::push)
        .def("rows", &Candidates::rows);
}

}  // namespace polyvec
