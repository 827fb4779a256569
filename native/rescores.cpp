// The scores of the candidates and the running best k of each query.
#include "scores.hpp"
#include "sieves.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "dispatch.hpp"

namespace nb = nanobind;

namespace polyvec {
namespace {

template <class T> using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <int metric, class T> Score plain_row(const T *x, const Asked &asked, size_t dim) {
    return score_row<metric, T>(x, asked, dim);
}
#if POLYVEC_X86
template <int metric, class T>
__attribute__((target("avx2"))) Score avx2_row(const T *x, const Asked &asked, size_t dim) {
    return score_row<metric, T>(x, asked, dim);
}
template <int metric, class T>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) Score avx512_row(const T *x, const Asked &asked, size_t dim) {
    return score_row<metric, T>(x, asked, dim);
}
#endif

template <class T> using Scorer = Score (*)(const T *, const Asked &, size_t);

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
    double key, tie;  // higher is better; a NaN score is kept as the lowest of both
    int64_t id;
    double score;
};

inline bool better(const Entry &a, const Entry &b) {
    if (a.key != b.key) return a.key > b.key;
    return a.tie != b.tie ? a.tie > b.tie : a.id < b.id;
}

class Best {
  public:
    Best(size_t queries, size_t k) : queries(queries), k(k), heaps(queries) {}

    void offer(size_t query, const Score &score, int64_t id) {
        constexpr double lowest = -std::numeric_limits<double>::infinity();
        const bool none = std::isnan(score.key);
        auto &heap = heaps[query];
        const Entry entry{none ? lowest : score.key, none ? lowest : score.tie, id, score.key};
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
        const PlainFloats plain;
        std::vector<Candidate> mine;
        for (size_t j = from; j < to; ++j) {
            for (Sieve *sieve : all) {
                mine.swap(sieve->held[j]);
                std::sort(mine.begin(), mine.end(), [](const Candidate &a, const Candidate &b) {
                    return a.upper > b.upper || (a.upper == b.upper && a.row < b.row);
                });
                if (mine.empty()) continue;
                const Asked asked = look_at(q + j * dim, dim, norm[j]);
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
                    best.offer(j, scorer(data + at * dim, asked, dim), ids ? ids[one.row] : first + one.row);
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

using Fill = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
void score_rows(Matrix<T> rows, Matrix<double> queries, Vector<double> norms, int metric, Fill keys, Fill ties) {
    const size_t dim = rows.shape(1), n = rows.shape(0), nq = queries.shape(0);
    if (queries.shape(1) != dim || norms.shape(0) != nq || keys.shape(0) != nq || keys.shape(1) != n || ties.shape(0) != nq ||
        ties.shape(1) != n)
        throw std::invalid_argument("score_rows: shapes differ");
    const Scorer<T> scorer = pick_scorer<T>(metric);
    const T *data = rows.data();
    const double *q = queries.data(), *norm = norms.data();
    double *key = keys.data(), *tie = ties.data();
    nb::gil_scoped_release release;
    const PlainFloats plain;
    for (size_t j = 0; j < nq; ++j) {
        const Asked asked = look_at(q + j * dim, dim, norm[j]);
        for (size_t i = 0; i < n; ++i) {
            const Score score = scorer(data + i * dim, asked, dim);
            key[j * n + i] = score.key;
            tie[j * n + i] = score.tie;
        }
    }
}

template <class T> void bind_for(nb::module_ &m) {
    m.def("settle", &settle<T>, nb::arg("best"), nb::arg("sieves"), nb::arg("rows").noconvert(), nb::arg("queries"),
          nb::arg("norms"), nb::arg("metric"), nb::arg("first"), nb::arg("where").none(), nb::arg("ids").none(),
          nb::arg("start"), nb::arg("stop"));
    m.def("score_rows", &score_rows<T>, nb::arg("rows").noconvert(), nb::arg("queries"), nb::arg("norms"), nb::arg("metric"),
          nb::arg("keys"), nb::arg("ties"));
}

}  // namespace

void bind_rescores(nb::module_ &m) {
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
             [](const Best &b, nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> ids, Fill keys, Fill ties) {
                 for (size_t axis = 0; axis < 2; ++axis) {
                     const size_t n = axis ? b.k : b.queries;
                     if (ids.shape(axis) != n || keys.shape(axis) != n || ties.shape(axis) != n)
                         throw std::invalid_argument("read: shapes differ");
                 }
                 for (size_t j = 0; j < b.queries; ++j) {
                     auto sorted = b.heaps[j];
                     std::sort(sorted.begin(), sorted.end(), better);
                     for (size_t c = 0; c < b.k; ++c) {
                         const bool there = c < sorted.size();
                         const size_t at = j * b.k + c;
                         ids.data()[at] = there ? sorted[c].id : -1;
                         keys.data()[at] = there ? sorted[c].score : std::numeric_limits<double>::quiet_NaN();
                         ties.data()[at] = there && !std::isnan(sorted[c].score) ? sorted[c].tie : 0.0;
                     }
                 }
             })
        .def("offer", [](Best &b, Matrix<int64_t> ids, Matrix<double> keys, Matrix<double> ties) {
            for (size_t axis = 0; axis < 2; ++axis)
                if ((axis == 0 && ids.shape(0) != b.queries) || keys.shape(axis) != ids.shape(axis) ||
                    ties.shape(axis) != ids.shape(axis))
                    throw std::invalid_argument("offer: shapes differ");
            for (size_t j = 0; j < b.queries; ++j)
                for (size_t c = 0; c < ids.shape(1); ++c) {
                    const size_t at = j * ids.shape(1) + c;
                    if (ids.data()[at] >= 0) b.offer(j, {keys.data()[at], ties.data()[at]}, ids.data()[at]);
                }
        });
    bind_for<float>(m);
    bind_for<double>(m);
    bind_for<int8_t>(m);
    bind_for<uint8_t>(m);
    m.attr("SCORES") = 5;  // polyvec.kernels.scores.VERSION
    m.def("float_mode", &float_mode, "How this thread rounds and whether it flushes subnormals; 0 where nothing else is possible.");
    m.def("set_float_mode", &set_float_mode, "Back to an earlier mode; 0: round to nearest, subnormals kept.");
    m.def("recount", [](Sieve &s) { s.recount(); });
}

}  // namespace polyvec
