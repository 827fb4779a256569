// The sieve of an exact search: per query, the rows that the bounds cannot exclude.
//
// A score is bounded, in units of its query, by
//     upper = s * A[row] + P[query] * E[row] + Q[query] * N[row] + R[query] * H[row]
// where s is the approximate dot product (int32 of two int8 rows, or float32). docs/exact-search.md
// says where the terms come from and why the rounding of this very sum is already inside them.
// A row is dropped only when `upper < threshold` holds; a NaN keeps it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace polyvec {

constexpr size_t LANES = 16;

struct Candidate {
    int32_t row;
    float lower, upper;
};

struct RowTerms {
    const float *A = nullptr, *E = nullptr, *N = nullptr, *H = nullptr;
    size_t rows = 0;
};

class Sieve {
  public:
    Sieve(size_t queries, size_t k, const float *p, const float *q, const float *r, const double *alpha,
          const double *beta, const double *slack)
        : queries(queries), k(k), padded((queries + LANES - 1) / LANES * LANES), P(padded, 0.0f), Q(padded, 0.0f),
          R(padded, 0.0f), T(padded, std::numeric_limits<float>::infinity()), alpha(alpha, alpha + queries),
          beta(beta, beta + queries), slack(slack, slack + queries), held(queries),
          room(queries, std::max<size_t>(4 * k, 256)) {
        std::copy(p, p + queries, P.begin());
        std::copy(q, q + queries, Q.begin());
        std::copy(r, r + queries, R.begin());
        std::fill(T.begin(), T.begin() + queries, -std::numeric_limits<float>::infinity());
    }

    // The threshold, in the query's units and rounded down, of a key (score, higher is better).
    float threshold(size_t query, double key) const {
        if (!(key > -std::numeric_limits<double>::infinity())) return -std::numeric_limits<float>::infinity();
        const double scaled = alpha[query] * key;
        const double unit = scaled + beta[query] - slack[query] - (std::fabs(scaled) + std::fabs(beta[query])) * 0x1p-40;
        if (!(unit > -std::numeric_limits<double>::max())) return -std::numeric_limits<float>::infinity();
        if (unit > 3e38) return 3e38f;
        if (unit < -3e38) return -std::numeric_limits<float>::infinity();
        return std::nextafter(static_cast<float>(unit), -std::numeric_limits<float>::infinity());
    }

    void raise_to(size_t query, double key) { T[query] = std::max(T[query], threshold(query, key)); }

    void keep(size_t query, size_t row, float upper) {
        if (std::isnan(upper)) upper = std::numeric_limits<float>::infinity();
        const float spread = P[query] * terms.E[row] + Q[query] * terms.N[row] + std::fabs(R[query] * terms.H[row]) * 0x1p-18f;
        float lower = upper - 2.0f * spread;  // the slack in every term covers this rounding as well
        lower -= std::fabs(lower) * 0x1p-20f + std::fabs(upper) * 0x1p-20f;
        if (!(lower > -std::numeric_limits<float>::infinity())) lower = -std::numeric_limits<float>::infinity();
        auto &mine = held[query];
        mine.push_back({static_cast<int32_t>(row), lower, upper});
        ++total;
        ++kept;
        if (mine.size() >= room[query]) compact(query);
    }

    // k rows are at least as good as the k-th lower bound: whatever stays below it is out.
    void compact(size_t query) {
        auto &mine = held[query];
        const size_t before = mine.size();
        if (before >= k) {
            std::nth_element(mine.begin(), mine.begin() + (k - 1), mine.end(),
                             [](const Candidate &a, const Candidate &b) { return a.lower > b.lower; });
            T[query] = std::max(T[query], mine[k - 1].lower);
        }
        const float limit = T[query];
        mine.erase(std::remove_if(mine.begin(), mine.end(), [limit](const Candidate &c) { return c.upper < limit; }),
                   mine.end());
        total -= before - mine.size();
        if (mine.size() * 2 > room[query]) room[query] *= 2;
    }

    void recount() {
        total = 0;
        for (const auto &mine : held) total += mine.size();
    }

    const size_t queries, k, padded;
    std::vector<float> P, Q, R, T;
    std::vector<double> alpha, beta, slack;
    std::vector<std::vector<Candidate>> held;
    std::vector<size_t> room;
    RowTerms terms;
    size_t total = 0;   // candidates held now
    uint64_t kept = 0;  // candidates ever held: what the choice of scan is judged by
};

}  // namespace polyvec
