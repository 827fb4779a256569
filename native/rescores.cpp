// float64 scores of the candidates and the running best k of each query.
//
// A score is defined by this order of additions, on every machine: 16 lanes, lane l adding the elements
// l, l + 16, l + 32, ..., then the lanes added as a tree of halves. polyvec.neighbors.reference does the same.
#include "sieves.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "dispatch.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors pass only between functions inlined into one another
#endif

namespace nb = nanobind;

namespace polyvec {
namespace {

template <class T> using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

enum Metric { IP = 0, COSINE = 1, L2 = 2 };

typedef double Lanes8 __attribute__((vector_size(64), aligned(8)));
template <class T> struct Eight;
template <> struct Eight<float> { typedef float type __attribute__((vector_size(32), aligned(4))); };
template <> struct Eight<double> { typedef double type __attribute__((vector_size(64), aligned(8))); };
template <> struct Eight<int8_t> { typedef int8_t type __attribute__((vector_size(8), aligned(1))); };
template <> struct Eight<uint8_t> { typedef uint8_t type __attribute__((vector_size(8), aligned(1))); };

template <class T> inline __attribute__((always_inline)) Lanes8 widen(const T *p) {
    return __builtin_convertvector(*reinterpret_cast<const typename Eight<T>::type *>(p), Lanes8);
}

inline __attribute__((always_inline)) double fold(const double *lanes) {
    double half[8];
    for (int l = 0; l < 8; ++l) half[l] = lanes[l] + lanes[l + 8];
    double quarter[4];
    for (int l = 0; l < 4; ++l) quarter[l] = half[l] + half[l + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// The score of one row; for cosine also the row's squared norm, in the same order.
template <int metric, class T>
inline __attribute__((always_inline)) double score_row(const T *x, const double *q, size_t dim, double query_norm) {
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
    const double sum = fold(lanes);
    // A NaN or infinite row, or one beyond float64, has no score: it comes after all rows that have one.
    if (!std::isfinite(sum)) return std::numeric_limits<double>::quiet_NaN();
    if (metric == L2) return -sum;
    if (metric == IP) return sum;
    const double norm = std::sqrt(fold(squares));
    if (!std::isfinite(norm)) return std::numeric_limits<double>::quiet_NaN();
    return norm == 0.0 ? 0.0 : sum / (norm * query_norm);
}

template <int metric, class T> double plain_row(const T *x, const double *q, size_t dim, double norm) {
    return score_row<metric, T>(x, q, dim, norm);
}
#if POLYVEC_X86
template <int metric, class T>
__attribute__((target("avx2"))) double avx2_row(const T *x, const double *q, size_t dim, double norm) {
    return score_row<metric, T>(x, q, dim, norm);
}
template <int metric, class T>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) double avx512_row(const T *x, const double *q, size_t dim,
                                                                               double norm) {
    return score_row<metric, T>(x, q, dim, norm);
}
#endif

template <class T> using Scorer = double (*)(const T *, const double *, size_t, double);

template <int metric, class T> Scorer<T> pick_for() {
#if POLYVEC_X86
    if (current_cpu() == Cpu::avx512) return avx512_row<metric, T>;
    if (current_cpu() == Cpu::avx2) return avx2_row<metric, T>;
#endif
    return plain_row<metric, T>;
}

template <class T> Scorer<T> pick_scorer(int metric) {
    if (metric == IP) return pick_for<IP, T>();
    if (metric == COSINE) return pick_for<COSINE, T>();
    if (metric == L2) return pick_for<L2, T>();
    throw std::invalid_argument("unknown metric");
}

// ---- the best k -----------------------------------------------------------------------------------------------

struct Entry {
    double key;  // higher is better; a NaN score is kept as the lowest key
    int64_t id;
    double score;
};

inline bool better(const Entry &a, const Entry &b) { return a.key > b.key || (a.key == b.key && a.id < b.id); }

class Best {
  public:
    Best(size_t queries, size_t k) : queries(queries), k(k), heaps(queries) {}

    void offer(size_t query, double score, int64_t id) {
        const double key = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
        auto &heap = heaps[query];
        const Entry entry{key, id, score};
        if (heap.size() < k) {
            heap.push_back(entry);
            std::push_heap(heap.begin(), heap.end(), better);
        } else if (better(entry, heap.front())) {
            std::pop_heap(heap.begin(), heap.end(), better);
            heap.back() = entry;
            std::push_heap(heap.begin(), heap.end(), better);
        }
    }
    double kth(size_t query) const {
        return heaps[query].size() < k ? -std::numeric_limits<double>::infinity() : heaps[query].front().key;
    }

    const size_t queries, k;
    std::vector<std::vector<Entry>> heaps;
};

// Rescores what the sieves hold for the queries [from, to), best bound first, and empties them. `where` maps a
// block's row to its place in `rows` (null: the same); ids[row] is its id (null: first + row).
template <class T>
void settle(Best &best, nb::list sieves, Matrix<T> rows, Matrix<double> queries, Vector<double> norms, int metric,
            int64_t first, nb::object where_object, nb::object ids_object, size_t from, size_t to) {
    const size_t dim = rows.shape(1), stored = rows.shape(0);
    if (queries.shape(0) != best.queries || queries.shape(1) != dim || norms.shape(0) != best.queries)
        throw std::invalid_argument("settle: queries do not fit");
    if (from > to || to > best.queries) throw std::invalid_argument("settle: query range");
    const Scorer<T> scorer = pick_scorer<T>(metric);
    std::vector<Sieve *> all;
    for (nb::handle h : sieves) {
        all.push_back(nb::cast<Sieve *>(h));
        if (all.back()->queries != best.queries) throw std::invalid_argument("settle: a sieve of other queries");
    }
    const int32_t *where = nullptr;
    const int64_t *ids = nullptr;
    size_t limit = stored;
    Vector<int32_t> where_array;
    Vector<int64_t> ids_array;
    if (!where_object.is_none()) {
        where_array = nb::cast<Vector<int32_t>>(where_object);
        where = where_array.data();
        limit = where_array.shape(0);
    }
    if (!ids_object.is_none()) {
        ids_array = nb::cast<Vector<int64_t>>(ids_object);
        ids = ids_array.data();
        limit = std::min<size_t>(limit, ids_array.shape(0));
    }
    const T *data = rows.data();
    const double *q = queries.data(), *norm = norms.data();
    bool fits = true;
    {
        nb::gil_scoped_release release;
        std::vector<Candidate> mine;
        for (size_t j = from; j < to; ++j) {
            for (Sieve *sieve : all) {
                mine.swap(sieve->held[j]);
                std::sort(mine.begin(), mine.end(), [](const Candidate &a, const Candidate &b) {
                    return a.upper > b.upper || (a.upper == b.upper && a.row < b.row);
                });
                double kth = best.kth(j);
                float limit_now = sieve->threshold(j, kth);
                const auto place = [&](int32_t row) { return where ? static_cast<size_t>(where[row]) : static_cast<size_t>(row); };
                for (size_t c = 0; c < mine.size(); ++c) {
                    const Candidate &one = mine[c];
                    if (one.upper < limit_now) break;  // sorted: the rest is lower still
                    if (static_cast<size_t>(one.row) >= limit) { fits = false; continue; }
                    const size_t at = place(one.row);
                    if (at >= stored) { fits = false; continue; }
                    if (c + 4 < mine.size() && static_cast<size_t>(mine[c + 4].row) < limit) {
                        const char *next = reinterpret_cast<const char *>(data + place(mine[c + 4].row) * dim);
                        for (size_t b = 0; b < std::min<size_t>(dim * sizeof(T), 1024); b += 64) __builtin_prefetch(next + b);
                    }
                    const double score = scorer(data + at * dim, q + j * dim, dim, norm[j]);
                    best.offer(j, score, ids ? ids[one.row] : first + one.row);
                    const double now = best.kth(j);
                    if (now > kth) {
                        kth = now;
                        limit_now = sieve->threshold(j, kth);
                    }
                }
                mine.clear();
            }
            for (Sieve *sieve : all) sieve->raise_to(j, best.kth(j));
        }
    }
    if (!fits) throw std::out_of_range("settle: a candidate lies outside the rows");
}

template <class T>
void score_all(Matrix<T> rows, Matrix<double> queries, Vector<double> norms, int metric,
               nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    const size_t dim = rows.shape(1), n = rows.shape(0), nq = queries.shape(0);
    if (queries.shape(1) != dim || norms.shape(0) != nq || out.shape(0) != nq || out.shape(1) != n)
        throw std::invalid_argument("score_all: shapes differ");
    const Scorer<T> scorer = pick_scorer<T>(metric);
    const T *data = rows.data();
    const double *q = queries.data(), *norm = norms.data();
    double *to = out.data();
    nb::gil_scoped_release release;
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < nq; ++j) to[j * n + i] = scorer(data + i * dim, q + j * dim, dim, norm[j]);
}

template <class T> void bind_for(nb::module_ &m) {
    m.def("settle", &settle<T>, nb::arg("best"), nb::arg("sieves"), nb::arg("rows").noconvert(), nb::arg("queries"),
          nb::arg("norms"), nb::arg("metric"), nb::arg("first"), nb::arg("where").none(), nb::arg("ids").none(),
          nb::arg("start"), nb::arg("stop"));
    m.def("score_all", &score_all<T>, nb::arg("rows").noconvert(), nb::arg("queries"), nb::arg("norms"), nb::arg("metric"),
          nb::arg("out"));
}

}  // namespace
}  // namespace polyvec

void bind_rescores(nb::module_ &m) {
    using namespace polyvec;
    nb::class_<Best>(m, "Best", "The best k (score, id) of each query seen so far; ties go to the lowest id.")
        .def("__init__",
             [](Best *self, size_t queries, size_t k) {
                 if (k == 0) throw std::invalid_argument("k must be positive");
                 new (self) Best(queries, k);
             })
        .def("kth",
             [](const Best &b, nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
                 if (out.shape(0) != b.queries) throw std::invalid_argument("kth: length");
                 for (size_t j = 0; j < b.queries; ++j) out.data()[j] = b.kth(j);
             })
        .def("read",
             [](const Best &b, nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> ids,
                nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> scores) {
                 if (ids.shape(0) != b.queries || ids.shape(1) != b.k || scores.shape(0) != b.queries || scores.shape(1) != b.k)
                     throw std::invalid_argument("read: shapes differ");
                 for (size_t j = 0; j < b.queries; ++j) {
                     auto sorted = b.heaps[j];
                     std::sort(sorted.begin(), sorted.end(), better);
                     for (size_t c = 0; c < b.k; ++c) {
                         ids.data()[j * b.k + c] = c < sorted.size() ? sorted[c].id : -1;
                         scores.data()[j * b.k + c] =
                             c < sorted.size() ? sorted[c].score : std::numeric_limits<double>::quiet_NaN();
                     }
                 }
             })
        .def("offer", [](Best &b, Matrix<int64_t> ids, Matrix<double> scores) {
            if (ids.shape(0) != b.queries || scores.shape(0) != b.queries || ids.shape(1) != scores.shape(1))
                throw std::invalid_argument("offer: shapes differ");
            for (size_t j = 0; j < b.queries; ++j)
                for (size_t c = 0; c < ids.shape(1); ++c)
                    if (ids.data()[j * ids.shape(1) + c] >= 0)
                        b.offer(j, scores.data()[j * ids.shape(1) + c], ids.data()[j * ids.shape(1) + c]);
        });
    bind_for<float>(m);
    bind_for<double>(m);
    bind_for<int8_t>(m);
    bind_for<uint8_t>(m);
    m.def("recount", [](Sieve &s) { s.recount(); });
}
