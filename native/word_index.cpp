// A hash index over the bytes of words.
#include <algorithm>
#include <memory>

#include "strings.hpp"
#include "threads.hpp"

namespace polyvec {
namespace {

inline uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Seeded, so that a file cannot be made to collide on purpose.
inline uint64_t hash_bytes(const uint8_t *p, size_t n, uint64_t seed) {
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15ull);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) h = mix(h ^ load64(p + i), 0xD6E8FEB86659FD93ull ^ seed);
    if (i < n) {
        uint64_t tail = 0;
        if (n >= 8) tail = load64(p + n - 8);
        else if (n - i >= 4) tail = load32(p + i) | ((uint64_t)load32(p + n - 4) << 32);
        else tail = p[i] | ((uint64_t)p[i + ((n - i) >> 1)] << 8) | ((uint64_t)p[n - 1] << 16);
        h = mix(h ^ tail, 0xA0761D6478BD642Full ^ seed);
    }
    return mix(h, 0xE7037ED1A0B428DBull);
}

// Open addressing over word bytes: a slot holds row + 1 in as many bits as rows need, and bits of the hash above them.
// The first of equal words wins.
class WordIndex {
  public:
    WordIndex(Bytes bytes, Longs starts, Longs stops, uint64_t seed, int threads)
        : bytes_(bytes), starts_(starts), stops_(stops), table_(bytes, starts, stops), seed_(seed | 1) {
        if (table_.count >= UINT32_MAX - 1) throw nb::value_error("an index holds at most 2^32 - 2 words");
        size_t size = 16;
        while (size < table_.count * 3) size *= 2;  // slots are small: room for fewer collisions
        nb::gil_scoped_release free_threads;
        mask_ = size - 1;
        while (row_mask_ <= table_.count) row_mask_ = 2 * row_mask_ + 1;
        slots_.reset(allocate<uint32_t>(size));  // every access is a miss, and small pages would miss twice
        const size_t parts = threads > 1 && table_.count >= least_shared ? 2 : 1;
        std::vector<int64_t> again[2], left[2];
        parallel_for(parts, threads, 1, 1, [&](size_t begin, size_t end) {
            for (size_t part = begin; part < end; ++part) fill(part, parts, again[part], left[part]);
        });
        // What would have reached beyond its part: equal words all did, so the first of them still comes first.
        for (const auto &rows : left)
            for (int64_t row : rows)
                insert((size_t)row, hash_bytes(table_.at((size_t)row), table_.length((size_t)row), seed_), 0, again[0]);
        duplicates_ = std::move(again[0]);
        duplicates_.insert(duplicates_.end(), again[1].begin(), again[1].end());
        std::sort(duplicates_.begin(), duplicates_.end());
    }

    int64_t find(nb::object word) const {
        const uint8_t *p;
        size_t n;
        if (!view_string(word.ptr(), p, n)) return -1;
        return seek(p, n, hash_bytes(p, n, seed_));
    }

    nb::ndarray<nb::numpy, int64_t> find_many(nb::list items, int threads) const {
        size_t count = nb::len(items);
        std::vector<const uint8_t *> data(count);
        std::vector<size_t> sizes(count);
        for (size_t i = 0; i < count; ++i)
            if (!view_string(PyList_GET_ITEM(items.ptr(), i), data[i], sizes[i])) { data[i] = nullptr; sizes[i] = 0; }
        int64_t *out = allocate<int64_t>(count);
        {
            nb::gil_scoped_release free_threads;
            parallel_for(count, threads, 8192, 1, [&](size_t start, size_t stop) {
                seek_all(start, stop, [&](size_t i) { return data[i]; }, [&](size_t i) { return sizes[i]; }, out);
            });
        }
        return own<int64_t>(out, {count});
    }

    nb::ndarray<nb::numpy, int64_t> find_table(Bytes bytes, Longs s, Longs l) const {
        StringTable queries(bytes, s, l);
        int64_t *out = allocate<int64_t>(queries.count);
        {
            nb::gil_scoped_release free_threads;
            seek_all(0, queries.count, [&](size_t i) { return queries.at(i); }, [&](size_t i) { return queries.length(i); }, out);
        }
        return own<int64_t>(out, {queries.count});
    }

    nb::ndarray<nb::numpy, int64_t> duplicates() const { return copy_out(duplicates_); }
    size_t memory() const { return (mask_ + 1) * sizeof(uint32_t); }

  private:
    static constexpr size_t least_shared = 1 << 16;  // words: below, a second thread costs more than it saves

    uint32_t tag_of(uint64_t hash) const { return (uint32_t)(hash >> 32) & ~row_mask_; }

    bool same(size_t row, const uint8_t *p, size_t n) const {
        return table_.length(row) == n && !std::memcmp(table_.at(row), p, n);
    }

    // The words whose first slot lies in one part of the table, in order. A block of words is hashed and its slots are
    // asked for while those of the block before arrive; which words are ours is counted, not branched on.
    void fill(size_t part, size_t parts, std::vector<int64_t> &again, std::vector<int64_t> &left) {
        struct Block {
            uint64_t hashes[64];
            size_t rows[64], count = 0;
        } blocks[2];
        const size_t size = mask_ + 1, start = part * size / parts, stop = (part + 1) * size / parts;
        const auto settle = [&](Block &block) {
            for (size_t i = 0; i < block.count; ++i)
                if (!insert(block.rows[i], block.hashes[i], parts > 1 ? stop : 0, again)) left.push_back((int64_t)block.rows[i]);
            block.count = 0;
        };
        size_t turn = 0;
        for (size_t first = 0; first < table_.count; first += 64, turn ^= 1) {
            Block &block = blocks[turn];
            size_t count = 0;
            for (size_t row = first; row < std::min(table_.count, first + 64); ++row) {
                const uint64_t hash = hash_bytes(table_.at(row), table_.length(row), seed_);
                block.hashes[count] = hash;
                block.rows[count] = row;
                count += (hash & mask_) - start < stop - start;
            }
            for (size_t i = 0; i < count; ++i) __builtin_prefetch(&slots_[block.hashes[i] & mask_], 1);
            block.count = count;
            settle(blocks[turn ^ 1]);
        }
        settle(blocks[turn ^ 1]);
    }

    // False where all slots before `stop` are taken by other words; 0 goes round, and always finds one.
    bool insert(size_t row, uint64_t hash, size_t stop, std::vector<int64_t> &again) {
        const uint8_t *p = table_.at(row);
        size_t n = table_.length(row);
        const uint32_t tag = tag_of(hash);
        for (size_t at = hash & mask_;; at &= mask_) {
            const uint32_t slot = slots_[at];
            if (!slot) { slots_[at] = tag | (uint32_t)(row + 1); return true; }
            if ((slot & ~row_mask_) == tag && same((slot & row_mask_) - 1, p, n)) { again.push_back((int64_t)row); return true; }
            if (++at == stop) return false;
        }
    }

    int64_t seek(const uint8_t *p, size_t n, uint64_t hash) const {
        const uint32_t tag = tag_of(hash);
        for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
            const uint32_t slot = slots_[at];
            if (!slot) return -1;
            if ((slot & ~row_mask_) == tag && same((slot & row_mask_) - 1, p, n)) return (int64_t)((slot & row_mask_) - 1);
        }
    }

    // Three memories a look-up (slot, offsets, bytes), all cold: ask for each a few words before it is needed.
    template <typename Data, typename Size>
    void seek_all(size_t from, size_t to, Data data, Size size, int64_t *out) const {
        constexpr size_t step = 16;
        uint64_t hashes[step];
        for (size_t start = from; start < to; start += step) {
            size_t n = std::min(step, to - start);
            for (size_t i = 0; i < n; ++i) {
                const uint8_t *p = data(start + i);
                hashes[i] = p ? hash_bytes(p, size(start + i), seed_) : 0;
                __builtin_prefetch(&slots_[hashes[i] & mask_]);
            }
            for (size_t i = 0; i < n; ++i) {
                uint32_t row = slots_[hashes[i] & mask_] & row_mask_;
                if (row) { __builtin_prefetch(&table_.starts[row - 1]); __builtin_prefetch(&table_.stops[row - 1]); }
            }
            for (size_t i = 0; i < n; ++i) {
                uint32_t row = slots_[hashes[i] & mask_] & row_mask_;
                if (row) __builtin_prefetch(table_.at(row - 1));
            }
            for (size_t i = 0; i < n; ++i) {
                const uint8_t *p = data(start + i);
                out[start + i] = p ? seek(p, size(start + i), hashes[i]) : -1;
            }
        }
    }

    Bytes bytes_; // these three keep the arrays alive
    Longs starts_;
    Longs stops_;
    StringTable table_;
    uint64_t seed_;
    size_t mask_ = 0;
    uint32_t row_mask_ = 1;
    std::unique_ptr<uint32_t[], void (*)(void *)> slots_{nullptr, std::free};
    std::vector<int64_t> duplicates_;
};

}  // namespace

void bind_word_index(nb::module_ &m) {
    nb::class_<WordIndex>(m, "WordIndex")
        .def(nb::init<Bytes, Longs, Longs, uint64_t, int>())
        .def("find", &WordIndex::find)
        .def("find_many", &WordIndex::find_many, nb::arg("words"), nb::arg("threads") = 1)
        .def("find_table", &WordIndex::find_table)
        .def_prop_ro("duplicates", &WordIndex::duplicates, nb::rv_policy::move)
        .def_prop_ro("memory", &WordIndex::memory);
}

}  // namespace polyvec
