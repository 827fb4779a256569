// Subwords: character n-grams, their three hash families, and the sum of the rows they point at.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "dispatch.hpp"
#include "lanes.hpp"
#include "strings.hpp"
#include "threads.hpp"

namespace polyvec {
namespace {

// A word between its brackets, as code points and as UTF-8 with the byte offset of every code point.
struct Bracketed {
    std::vector<uint32_t> points;
    std::vector<uint32_t> offsets; // one more than points
    std::vector<uint8_t> text;

    void set(const uint8_t *word, size_t size, const std::string &bow, const std::string &eow) {
        if (size >= (1u << 30)) throw std::length_error("n-grams of a word of 1 GiB or more");
        text.clear();
        text.insert(text.end(), bow.begin(), bow.end());
        if (size) text.insert(text.end(), word, word + size);
        text.insert(text.end(), eow.begin(), eow.end());
        points.clear();
        offsets.clear();
        size_t n = text.size(), i = 0;
        while (i < n) {
            offsets.push_back((uint32_t)i);
            uint8_t c = text[i];
            size_t more = c < 0x80 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
            uint32_t point = more == 0 ? c : more == 1 ? c & 0x1F : more == 2 ? c & 0x0F : c & 0x07;
            for (size_t j = 1; j <= more && i + j < n; ++j) point = (point << 6) | (text[i + j] & 0x3F);
            points.push_back(point);
            i = std::min(n, i + more + 1);
        }
        offsets.push_back((uint32_t)n);
    }
};

struct Result {
    std::vector<int64_t> indices, splits{0};
    nb::tuple pack() { return nb::make_tuple(copy_out(indices), copy_out(splits)); }
};

// FNV-1a 64 over the count as eight bytes and each code point as four. Zero bytes only multiply, so the zero bytes
// at the end of a small number are one multiplication by a power of the prime.
inline uint64_t fnv64(const uint32_t *points, size_t n) {
    constexpr uint64_t prime = 0x100000001b3ull, p2 = prime * prime, p4 = p2 * p2, p8 = p4 * p4;
    uint64_t h = 0xcbf29ce484222325ull;
    auto eat = [&h](uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) h = (h ^ ((value >> (8 * i)) & 0xFF)) * prime;
    };
    if (n < 256) h = (h ^ n) * p8;
    else eat(n, 8);
    for (size_t i = 0; i < n; ++i) {
        if (points[i] < 128) h = (h ^ points[i]) * p4;
        else eat(points[i], 4);
    }
    return h;
}

// n-grams in the reference's order: by start, the longest first. each(start, length) with lengths in points.
template <typename Each> inline void each_ngram(size_t points, uint64_t min_n, uint64_t max_n, Each each) {
    if (min_n == 0 || points < min_n) return;
    for (size_t start = 0; start + min_n <= points; ++start) {
        size_t longest = (size_t)std::min<uint64_t>(max_n, points - start);
        for (size_t n = longest; n >= min_n; --n) each(start, n);
    }
}

nb::tuple bucket_indices(Bytes bytes, Longs s, Longs l, uint64_t min_n, uint64_t max_n, uint32_t exponent) {
    StringTable table(bytes, s, l);
    if (exponent > 63) throw nb::value_error("the bucket exponent is at most 63");
    uint64_t mask = (1ull << exponent) - 1;
    Result result;
    {
        nb::gil_scoped_release free_threads;
        Bracketed word;
        for (size_t i = 0; i < table.count; ++i) {
            word.set(table.at(i), table.length(i), "<", ">");
            each_ngram(word.points.size(), min_n, max_n, [&](size_t start, size_t n) {
                result.indices.push_back((int64_t)(fnv64(word.points.data() + start, n) & mask));
            });
            result.splits.push_back((int64_t)result.indices.size());
        }
    }
    return result.pack();
}

nb::tuple fasttext_indices(Bytes bytes, Longs s, Longs l, uint64_t min_n, uint64_t max_n, uint32_t buckets) {
    StringTable table(bytes, s, l);
    if (!buckets) throw nb::value_error("at least one bucket is needed");
    Result result;
    {
        nb::gil_scoped_release free_threads;
        Bracketed word;
        for (size_t i = 0; i < table.count; ++i) {
            word.set(table.at(i), table.length(i), "<", ">");
            size_t points = word.points.size();
            // Longer n-grams extend the hash of shorter ones, so count up and write down.
            for (size_t start = 0; min_n && start + min_n <= points; ++start) {
                size_t longest = (size_t)std::min<uint64_t>(max_n, points - start);
                if (longest < min_n) break;
                size_t first = result.indices.size();
                result.indices.resize(first + (longest - min_n + 1));
                uint32_t h = 2166136261u;
                for (size_t n = 1; n <= longest; ++n) {
                    for (size_t b = word.offsets[start + n - 1]; b < word.offsets[start + n]; ++b)
                        h = (h ^ (uint32_t)(int8_t)word.text[b]) * 16777619u;
                    if (n >= min_n) result.indices[first + (longest - n)] = (int64_t)(h % buckets);
                }
            }
            result.splits.push_back((int64_t)result.indices.size());
        }
    }
    return result.pack();
}

inline uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
inline uint64_t finish(uint64_t k) {
    k = (k ^ (k >> 33)) * 0xff51afd7ed558ccdull;
    k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return k ^ (k >> 33);
}

// MurmurHash3 x64 128, of which the four u32 lanes are used.
void murmur3(const uint8_t *p, size_t n, uint32_t seed, uint32_t lanes[4]) {
    constexpr uint64_t c1 = 0x87c37b91114253d5ull, c2 = 0x4cf5ad432745937full;
    uint64_t h1 = seed, h2 = seed;
    size_t blocks = n / 16;
    for (size_t i = 0; i < blocks; ++i) {
        uint64_t k1, k2;
        std::memcpy(&k1, p + 16 * i, 8);
        std::memcpy(&k2, p + 16 * i + 8, 8);
        h1 = (rotate(h1 ^ (rotate(k1 * c1, 31) * c2), 27) + h2) * 5 + 0x52dce729;
        h2 = (rotate(h2 ^ (rotate(k2 * c2, 33) * c1), 31) + h1) * 5 + 0x38495ab5;
    }
    uint64_t k1 = 0, k2 = 0;
    const uint8_t *tail = p + 16 * blocks;
    for (size_t i = n & 15; i > 8; --i) k2 |= (uint64_t)tail[i - 1] << (8 * (i - 9));
    for (size_t i = std::min<size_t>(n & 15, 8); i > 0; --i) k1 |= (uint64_t)tail[i - 1] << (8 * (i - 1));
    h2 ^= rotate(k2 * c2, 33) * c1;
    h1 ^= rotate(k1 * c1, 31) * c2;
    h1 ^= n;
    h2 ^= n;
    h1 += h2;
    h2 += h1;
    h1 = finish(h1);
    h2 = finish(h2);
    h1 += h2;
    h2 += h1;
    lanes[0] = (uint32_t)h1;
    lanes[1] = (uint32_t)(h1 >> 32);
    lanes[2] = (uint32_t)h2;
    lanes[3] = (uint32_t)(h2 >> 32);
}

// The bracketed word itself comes first, then its n-grams; each gives `hashes` rows.
nb::tuple floret_indices(Bytes bytes, Longs s, Longs l, uint64_t min_n, uint64_t max_n, uint64_t buckets, uint32_t hashes,
                         uint32_t seed, std::string bow, std::string eow) {
    StringTable table(bytes, s, l);
    if (!buckets || hashes < 1 || hashes > 4) throw nb::value_error("floret needs buckets and 1 to 4 hashes");
    Result result;
    {
        nb::gil_scoped_release free_threads;
        Bracketed word;
        uint32_t lanes[4];
        auto add = [&](size_t from, size_t to) {
            murmur3(word.text.data() + from, to - from, seed, lanes);
            for (uint32_t i = 0; i < hashes; ++i) result.indices.push_back((int64_t)(lanes[i] % buckets));
        };
        for (size_t i = 0; i < table.count; ++i) {
            word.set(table.at(i), table.length(i), bow, eow);
            add(0, word.text.size());
            each_ngram(word.points.size(), min_n, max_n,
                       [&](size_t start, size_t n) { add(word.offsets[start], word.offsets[start + n]); });
            result.splits.push_back((int64_t)result.indices.size());
        }
    }
    return result.pack();
}

// The n-grams themselves, as strings of one new text: text, starts, stops, splits.
nb::tuple ngram_table(Bytes bytes, Longs s, Longs l, uint64_t min_n, uint64_t max_n) {
    StringTable table(bytes, s, l);
    std::vector<uint8_t> text;
    std::vector<int64_t> starts, stops, splits{0};
    {
        nb::gil_scoped_release free_threads;
        Bracketed word;
        for (size_t i = 0; i < table.count; ++i) {
            word.set(table.at(i), table.length(i), "<", ">");
            int64_t base = (int64_t)text.size();
            text.insert(text.end(), word.text.begin(), word.text.end());
            each_ngram(word.points.size(), min_n, max_n, [&](size_t start, size_t n) {
                starts.push_back(base + word.offsets[start]);
                stops.push_back(base + word.offsets[start + n]);
            });
            splits.push_back((int64_t)starts.size());
        }
    }
    return nb::make_tuple(copy_out(text), copy_out(starts), copy_out(stops), copy_out(splits));
}

// ---- sums ----------------------------------------------------------------------------------------------

POLYVEC_CLONES void add(float *sum, const float *row, size_t dim) {
    for (size_t d = 0; d < dim; ++d) sum[d] += row[d];
}

// out[i] = own row (where `own` is given) + the rows indices[splits[i]:splits[i+1]] (-1 skipped), in that order;
// `mean` divides by how many were added, `normalize` then by the length, which goes to `norms`. Zero stays zero.
void sum_rows(Matrix matrix, Longs indices, Longs splits, nb::object own_rows, bool mean, bool normalize, MatrixOut out,
              FloatsOut norms, int threads) {
    size_t rows = matrix.shape(0), dim = matrix.shape(1), count = out.shape(0);
    if (splits.size() != count + 1 || norms.size() != count || out.shape(1) != dim)
        throw nb::value_error("splits, out and norms disagree");
    const int64_t *at = splits.data(), *index = indices.data();
    for (size_t i = 0; i < count; ++i)
        if (at[i] < 0 || at[i] > at[i + 1] || (size_t)at[i + 1] > indices.size()) throw nb::index_error("bad splits");
    for (size_t i = 0; i < indices.size(); ++i)
        if (index[i] < -1 || (index[i] >= 0 && (size_t)index[i] >= rows)) throw nb::index_error("a row beyond the matrix");
    Longs own_array;
    const int64_t *own_index = nullptr;
    if (!own_rows.is_none()) {
        own_array = nb::cast<Longs>(own_rows);
        own_index = own_array.data();
        if (own_array.size() != count) throw nb::value_error("one own row a result is needed");
        for (size_t i = 0; i < count; ++i)
            if (own_index[i] < 0 || (size_t)own_index[i] >= rows) throw nb::index_error("a row beyond the matrix");
    }
    const float *data = matrix.data();
    float *sums = out.data(), *lengths = norms.data();
    nb::gil_scoped_release free_threads;
    parallel_for(count, threads, 256, 1, [=](size_t start, size_t stop) {
        constexpr int64_t ahead = 3;
        for (size_t i = start; i < stop; ++i) {
            float *sum = sums + i * dim;
            size_t added = 0;
            if (own_index) {
                std::memcpy(sum, data + (size_t)own_index[i] * dim, dim * sizeof(float));
                added = 1;
            } else {
                std::memset(sum, 0, dim * sizeof(float));
            }
            for (int64_t j = at[i]; j < at[i + 1]; ++j) {
                if (j + ahead < at[stop] && index[j + ahead] >= 0) { // into the second cache: the first holds too few misses
                    const char *soon = reinterpret_cast<const char *>(data + (size_t)index[j + ahead] * dim);
                    for (size_t b = 0; b < dim * sizeof(float); b += 64) __builtin_prefetch(soon + b, 0, 2);
                }
                if (index[j] < 0) continue;
                const float *row = data + (size_t)index[j] * dim;
                add(sum, row, dim);
                ++added;
            }
            if (mean && added) {
                float by = (float)added;
                for (size_t d = 0; d < dim; ++d) sum[d] /= by;
            }
            float length = (float)std::sqrt(square(sum, dim));
            lengths[i] = length;
            if (normalize && length > 0)
                for (size_t d = 0; d < dim; ++d) sum[d] /= length;
        }
    });
}

}  // namespace

void bind_subwords(nb::module_ &m) {
    m.def("bucket_indices", &bucket_indices);
    m.def("fasttext_indices", &fasttext_indices);
    m.def("floret_indices", &floret_indices);
    m.def("ngram_table", &ngram_table);
    m.def("sum_rows", &sum_rows, nb::arg("matrix"), nb::arg("indices"), nb::arg("splits"), nb::arg("own").none(),
          nb::arg("mean"), nb::arg("normalize"), nb::arg("out"), nb::arg("norms"), nb::arg("threads"));
}

}  // namespace polyvec
