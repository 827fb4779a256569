// The best k scores of a stream of rows, and every row that may belong to them.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace polyvec {

// Approximate scores are off by at most margin / 2: a row stays while it is within `margin` of the k-th best, so
// that exact scores, taken later, decide. With margin 0 exactly the best k and their ties stay.
class TopRows {
  public:
    TopRows(size_t k, float margin) : k_(k), margin_(margin) {}

    void push(const float *scores, size_t count, int64_t first) {
        constexpr size_t step = 16;
        size_t i = 0;
        for (; i + step <= count; i += step) {
            float high = -std::numeric_limits<float>::infinity(); // a NaN must not hide those beside it
            for (size_t j = 0; j < step; ++j) high = scores[i + j] > high ? scores[i + j] : high;
            if (high >= bar_)
                for (size_t j = 0; j < step; ++j) add(scores[i + j], first + (int64_t)(i + j));
        }
        for (; i < count; ++i) add(scores[i], first + (int64_t)i);
    }

    void add(float score, int64_t row) {
        if (!(score >= bar_)) return;
        kept_.emplace_back(score, row);
        if (heap_.size() < k_) {
            heap_.push_back(score);
            std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        } else if (score > heap_.front()) {
            std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
            heap_.back() = score;
            std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
        }
        if (heap_.size() == k_) bar_ = heap_.front() - margin_;
        if (kept_.size() >= limit_) {
            prune();
            limit_ = std::max<size_t>(4096, 2 * kept_.size());
        }
    }

    void merge(const TopRows &other) {
        for (auto &[score, row] : other.kept_) add(score, row);
    }

    nb::ndarray<nb::numpy, int64_t> rows() {
        prune();
        std::vector<int64_t> rows;
        for (auto &entry : kept_) rows.push_back(entry.second);
        std::sort(rows.begin(), rows.end());
        return copy_out(rows);
    }

  private:
    void prune() {
        kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [&](auto &e) { return e.first < bar_; }), kept_.end());
    }

    size_t k_, limit_ = 4096;
    float margin_, bar_ = -std::numeric_limits<float>::infinity();
    std::vector<float> heap_;
    std::vector<std::pair<float, int64_t>> kept_;
};

}  // namespace polyvec
