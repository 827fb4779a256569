// String tables: length-prefixed and delimited words to offsets, UTF-8 checks, a hash index over word bytes,
// and the numbers of text embeddings.
#include "words.hpp"

#include <charconv>
#include <memory>
#include <string>

namespace {

using namespace words;

inline uint32_t load32(const uint8_t *p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

inline uint64_t load64(const uint8_t *p) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    return v;
}

inline void check_range(size_t size, uint64_t start, uint64_t stop) {
    if (start > stop || stop > size) throw nb::index_error("the range lies outside the bytes");
}

// ---- UTF-8 ---------------------------------------------------------------------------------------------

// Most words: two overlapping loads and no loop.
inline bool is_ascii(const uint8_t *p, size_t n) {
    uint64_t all = 0;
    if (n >= 8) {
        for (size_t i = 0; i + 8 < n; i += 8) all |= load64(p + i);
        all |= load64(p + n - 8);
    } else if (n >= 4) {
        all = load32(p) | load32(p + n - 4);
    } else {
        for (size_t i = 0; i < n; ++i) all |= p[i];
    }
    return !(all & 0x8080808080808080ull);
}

bool valid_utf8(const uint8_t *p, size_t n) {
    if (is_ascii(p, n)) return true;
    size_t i = 0;
    while (i < n) {
        while (i + 8 <= n && !(load64(p + i) & 0x8080808080808080ull)) i += 8;
        if (i >= n) break;
        uint8_t c = p[i];
        if (c < 0x80) { ++i; continue; }
        size_t more;
        uint8_t low = 0x80, high = 0xBF; // what the second byte may be: no overlong form, no surrogate
        if (c >= 0xC2 && c <= 0xDF) more = 1;
        else if (c >= 0xE0 && c <= 0xEF) { more = 2; if (c == 0xE0) low = 0xA0; if (c == 0xED) high = 0x9F; }
        else if (c >= 0xF0 && c <= 0xF4) { more = 3; if (c == 0xF0) low = 0x90; if (c == 0xF4) high = 0x8F; }
        else return false;
        if (n - i <= more) return false;
        if (p[i + 1] < low || p[i + 1] > high) return false;
        for (size_t j = 2; j <= more; ++j)
            if ((p[i + j] & 0xC0) != 0x80) return false;
        i += more + 1;
    }
    return true;
}

constexpr size_t ahead = 16;  // words: how far to prefetch

// ---- walking -------------------------------------------------------------------------------------------

// Strings of u32 length + bytes, each followed by `gap` bytes. Stops at the first that does not fit:
// fewer than count then, and `end` is where that entry begins. Looks at the bytes while they are at hand: tells
// whether a string is not UTF-8 and whether one is empty.
nb::tuple walk_table(Bytes bytes, uint64_t start, uint64_t stop, uint64_t count, uint64_t gap) {
    check_range(bytes.size(), start, stop);
    const uint8_t *data = bytes.data();
    uint64_t room = std::min<uint64_t>(count, gap > stop ? 0 : (stop - start) / (4 + gap));
    int64_t *starts = allocate<int64_t>(room);
    int64_t *stops = allocate<int64_t>(room);
    uint64_t walked = 0, at = start;
    bool invalid = false, empty = false;
    {
        nb::gil_scoped_release free_threads;
        for (; walked < room; ++walked) {
            if (stop - at < 4 + gap) break;
            uint64_t length = load32(data + at);
            if (length > stop - at - 4 - gap) break;
            starts[walked] = (int64_t)(at + 4);
            invalid |= !valid_utf8(data + at + 4, length);
            empty |= !length;
            stops[walked] = (int64_t)(at + 4 + length);
            at += 4 + length + gap;
        }
    }
    return nb::make_tuple(own<int64_t>(starts, {(size_t)walked}), own<int64_t>(stops, {(size_t)walked}), at, invalid, empty);
}

// word, delimiter, `gap` bytes; newlines before a word are skipped (word2vec binary: delimiter ' ', gap 4*dim;
// fastText dictionary: delimiter 0, gap 9, no newlines).
nb::tuple scan_words(Bytes bytes, uint64_t start, uint64_t stop, uint64_t count, uint8_t delimiter, uint64_t gap,
                     bool newlines) {
    check_range(bytes.size(), start, stop);
    const uint8_t *data = bytes.data();
    uint64_t room = std::min<uint64_t>(count, gap > stop ? 0 : (stop - start) / (1 + gap));
    int64_t *starts = allocate<int64_t>(room);
    int64_t *stops = allocate<int64_t>(room);
    uint64_t walked = 0, at = start;
    {
        nb::gil_scoped_release free_threads;
        for (; walked < room; ++walked) {
            uint64_t from = at;
            while (newlines && from < stop && data[from] == '\n') ++from;
            const void *found = from < stop ? std::memchr(data + from, delimiter, stop - from) : nullptr;
            if (!found) break;
            uint64_t end = (uint64_t)(static_cast<const uint8_t *>(found) - data);
            if (gap > stop - end - 1) break;
            starts[walked] = (int64_t)from;
            stops[walked] = (int64_t)end;
            // Words lie a memory access apart: ask for the one some words on, about where it will be.
            uint64_t guess = end + ahead * ((end - start) / (walked + 1));
            if (gap >= 64 && guess < stop) {
                __builtin_prefetch(data + guess);
                __builtin_prefetch(data + guess + 64);
            }
            at = end + 1 + gap;
        }
    }
    return nb::make_tuple(own<int64_t>(starts, {(size_t)walked}), own<int64_t>(stops, {(size_t)walked}), at, walked);
}

nb::ndarray<nb::numpy, int64_t> find_invalid(Bytes bytes, Longs s, Longs l) {
    Table table(bytes, s, l);
    std::vector<int64_t> bad;
    {
        nb::gil_scoped_release free_threads;
        for (size_t i = 0; i < table.count; ++i) {
            if (i + ahead < table.count) __builtin_prefetch(table.at(i + ahead));
            if (!valid_utf8(table.at(i), table.length(i))) bad.push_back((int64_t)i);
        }
    }
    return copy_out(bad);
}

// ---- packing Python strings ----------------------------------------------------------------------------

// A Python str's UTF-8, or a bytes object's bytes; false where there is none (a lone surrogate).
bool view(PyObject *item, const uint8_t *&data, size_t &size) {
    Py_ssize_t n = 0;
    if (PyUnicode_Check(item)) {
        const char *p = PyUnicode_AsUTF8AndSize(item, &n);
        if (!p) { PyErr_Clear(); return false; }
        data = reinterpret_cast<const uint8_t *>(p);
    } else if (PyBytes_Check(item)) {
        char *p;
        if (PyBytes_AsStringAndSize(item, &p, &n)) throw nb::python_error();
        data = reinterpret_cast<const uint8_t *>(p);
    } else {
        throw nb::type_error("words are str or bytes");
    }
    size = (size_t)n;
    return true;
}

nb::tuple pack_strings(nb::list items) {
    size_t count = nb::len(items), total = 0;
    std::vector<const uint8_t *> data(count);
    std::vector<size_t> sizes(count);
    for (size_t i = 0; i < count; ++i) {
        if (!view(PyList_GET_ITEM(items.ptr(), i), data[i], sizes[i]))
            throw nb::value_error("a word holds a lone surrogate, which UTF-8 cannot express");
        total += sizes[i];
    }
    uint8_t *blob = allocate<uint8_t>(total);
    int64_t *starts = allocate<int64_t>(count);
    int64_t *stops = allocate<int64_t>(count);
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
        if (sizes[i]) std::memcpy(blob + at, data[i], sizes[i]);
        starts[i] = (int64_t)at;
        at += sizes[i];
        stops[i] = (int64_t)at;
    }
    return nb::make_tuple(own<uint8_t>(blob, {total}), own<int64_t>(starts, {count}), own<int64_t>(stops, {count}));
}

// The strings one after the other, each behind its u32 length and before `gap` bytes of `tail`.
nb::ndarray<nb::numpy, uint8_t> join_table(Bytes bytes, Longs s, Longs l, bool prefix) {
    Table table(bytes, s, l);
    size_t total = 0;
    for (size_t i = 0; i < table.count; ++i) {
        if (prefix && table.length(i) > UINT32_MAX) throw nb::value_error("a string of 4 GiB or more has no u32 length");
        total += table.length(i) + (prefix ? 4 : 0);
    }
    uint8_t *out = allocate<uint8_t>(total);
    uint8_t *p = out;
    {
        nb::gil_scoped_release free_threads;
        for (size_t i = 0; i < table.count; ++i) {
            if (i + ahead < table.count) __builtin_prefetch(table.at(i + ahead));
            uint32_t length = (uint32_t)table.length(i);
            if (prefix) { std::memcpy(p, &length, 4); p += 4; }
            if (table.length(i)) std::memcpy(p, table.at(i), table.length(i));
            p += table.length(i);
        }
    }
    return own<uint8_t>(out, {total});
}

nb::list decode_strings(Bytes bytes, Longs s, Longs l) {
    Table table(bytes, s, l);
    PyObject *list = PyList_New((Py_ssize_t)table.count);
    if (!list) throw nb::python_error();
    for (size_t i = 0; i < table.count; ++i) {
        PyObject *word = PyUnicode_DecodeUTF8(reinterpret_cast<const char *>(table.at(i)), (Py_ssize_t)table.length(i), "strict");
        if (!word) { Py_DECREF(list); throw nb::python_error(); }
        PyList_SET_ITEM(list, (Py_ssize_t)i, word);
    }
    return nb::steal<nb::list>(list);
}

// ---- the hash index ------------------------------------------------------------------------------------

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
    WordIndex(Bytes bytes, Longs starts, Longs stops, uint64_t seed, size_t threads)
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
        spread(parts, parts, 1, [&](size_t part, size_t, size_t) { fill(part, parts, again[part], left[part]); });
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
        if (!view(word.ptr(), p, n)) return -1;
        return seek(p, n, hash_bytes(p, n, seed_));
    }

    nb::ndarray<nb::numpy, int64_t> find_many(nb::list items, size_t threads) const {
        size_t count = nb::len(items);
        std::vector<const uint8_t *> data(count);
        std::vector<size_t> sizes(count);
        for (size_t i = 0; i < count; ++i)
            if (!view(PyList_GET_ITEM(items.ptr(), i), data[i], sizes[i])) { data[i] = nullptr; sizes[i] = 0; }
        int64_t *out = allocate<int64_t>(count);
        {
            nb::gil_scoped_release free_threads;
            spread(count, threads, 8192, [&](size_t start, size_t stop, size_t) {
                seek_all(start, stop, [&](size_t i) { return data[i]; }, [&](size_t i) { return sizes[i]; }, out);
            });
        }
        return own<int64_t>(out, {count});
    }

    nb::ndarray<nb::numpy, int64_t> find_table(Bytes bytes, Longs s, Longs l) const {
        Table queries(bytes, s, l);
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
    Table table_;
    uint64_t seed_;
    size_t mask_ = 0;
    uint32_t row_mask_ = 1;
    std::unique_ptr<uint32_t[], void (*)(void *)> slots_{nullptr, std::free};
    std::vector<int64_t> duplicates_;
};

// ---- text embeddings -----------------------------------------------------------------------------------

inline bool blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// Lines of "word v1 .. vdim": the word is what stands before the last `dim` fields, so it may hold spaces.
// Returns word starts and stops, the offset of each line's first number, the end, lines read, and how many
// fields the line at `end` had where it had too few (-1 otherwise).
nb::tuple scan_text(Bytes bytes, uint64_t start, uint64_t stop, uint64_t count, uint64_t dim) {
    check_range(bytes.size(), start, stop);
    const uint8_t *data = bytes.data();
    std::vector<int64_t> starts, stops, numbers;
    uint64_t at = start;
    int64_t short_fields = -1;
    {
        nb::gil_scoped_release free_threads;
        while (at < stop && starts.size() < count) {
            const void *found = std::memchr(data + at, '\n', stop - at);
            uint64_t end = found ? (uint64_t)(static_cast<const uint8_t *>(found) - data) : stop;
            uint64_t next = found ? end + 1 : stop;
            uint64_t right = end;
            while (right > at && blank(data[right - 1])) --right;
            if (right == at) { // an empty line ends nothing and holds nothing
                at = next;
                continue;
            }
            uint64_t fields = 0, first = right;
            while (fields < dim && right > at) {
                uint64_t left = right;
                while (left > at && !blank(data[left - 1])) --left;
                first = left;
                ++fields;
                right = left;
                while (right > at && blank(data[right - 1])) --right;
                if (right == left) break; // the line begins with this field: no word before it
            }
            if (fields < dim || first == at) { short_fields = (int64_t)fields; break; }
            starts.push_back((int64_t)at);
            stops.push_back((int64_t)right);
            numbers.push_back((int64_t)first);
            at = next;
        }
    }
    return nb::make_tuple(copy_out(starts), copy_out(stops), copy_out(numbers), at, starts.size(), short_fields);
}

bool parse_float(const char *p, const char *end, float &out) {
    if (p < end && *p == '+') {
        ++p;
        if (p < end && (*p == '-' || *p == '+')) return false;
    }
#if defined(__cpp_lib_to_chars)
    auto [last, problem] = std::from_chars(p, end, out);
    if (problem == std::errc::result_out_of_range) { // overflow is infinite, underflow zero, as in Python
        std::string copy(p, last);
        out = (float)std::strtod(copy.c_str(), nullptr);
        return last == end;
    }
    return problem == std::errc() && last == end && p < end;
#else // a library without floats in <charconv>: the same numbers by way of the C library
    if (p == end || blank((uint8_t)*p) || std::memchr(p, 'x', end - p) || std::memchr(p, 'X', end - p)) return false;
    std::string copy(p, end);
    char *stop;
    out = std::strtof(copy.c_str(), &stop);
    return stop == copy.c_str() + copy.size();
#endif
}

// `dim` numbers from each offset on, correctly rounded to float32; the index of the first bad one, or -1.
int64_t parse_rows(Bytes bytes, uint64_t stop, Longs numbers, MatrixOut out) {
    check_range(bytes.size(), 0, stop);
    size_t rows = numbers.size(), dim = out.shape(1);
    if (out.shape(0) < rows) throw nb::index_error("the output has too few rows");
    const uint8_t *data = bytes.data();
    float *values = out.data();
    nb::gil_scoped_release free_threads;
    for (size_t row = 0; row < rows; ++row) {
        uint64_t at = (uint64_t)numbers.data()[row];
        for (size_t i = 0; i < dim; ++i) {
            while (at < stop && blank(data[at])) ++at;
            uint64_t end = at;
            while (end < stop && !blank(data[end]) && data[end] != '\n') ++end;
            if (!parse_float(reinterpret_cast<const char *>(data + at), reinterpret_cast<const char *>(data + end),
                             values[row * dim + i]))
                return (int64_t)(row * dim + i);
            at = end;
        }
    }
    return -1;
}

// "word v1 .. vdim\n" a row, each number the shortest text that reads back to the same float32.
nb::bytes format_rows(Bytes bytes, Longs s, Longs l, Matrix rows) {
    Table table(bytes, s, l);
    if (rows.shape(0) != table.count) throw nb::value_error("as many words as rows are needed");
    size_t dim = rows.shape(1);
    std::string out;
    {
        nb::gil_scoped_release free_threads;
        out.reserve(table.count * (dim * 11 + 16));
        char text[32];
        for (size_t i = 0; i < table.count; ++i) {
            out.append(reinterpret_cast<const char *>(table.at(i)), table.length(i));
            const float *row = rows.data() + i * dim;
            for (size_t j = 0; j < dim; ++j) {
                auto end = std::to_chars(text, text + sizeof text, row[j]).ptr;
                out.push_back(' ');
                out.append(text, end);
            }
            out.push_back('\n');
        }
    }
    return nb::bytes(out.data(), out.size());
}

// Each word, `middle`, the bytes of its row, `tail`: a block of word2vec binary or of a fastText dictionary.
nb::bytes weave_rows(Bytes bytes, Longs s, Longs l, nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows,
                     nb::bytes middle, nb::bytes tail) {
    Table table(bytes, s, l);
    size_t width = rows.shape(1), total = table.count * (width + middle.size() + tail.size());
    if (rows.shape(0) != table.count) throw nb::value_error("as many words as rows are needed");
    for (size_t i = 0; i < table.count; ++i) total += table.length(i);
    nb::bytes result = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, (Py_ssize_t)total));
    char *p = PyBytes_AS_STRING(result.ptr());
    auto put = [&p](const void *from, size_t size) {
        if (size) std::memcpy(p, from, size);
        p += size;
    };
    const char *between = middle.c_str(), *after = tail.c_str();
    size_t between_size = middle.size(), after_size = tail.size();
    {
        nb::gil_scoped_release free_threads;
        for (size_t i = 0; i < table.count; ++i) {
            put(table.at(i), table.length(i));
            put(between, between_size);
            put(rows.data() + i * width, width);
            put(after, after_size);
        }
    }
    return result;
}

} // namespace

void bind_strings(nb::module_ &m) {
    m.def("walk_table", &walk_table);
    m.def("scan_words", &scan_words);
    m.def("find_invalid", &find_invalid);
    m.def("pack_strings", &pack_strings);
    m.def("join_table", &join_table);
    m.def("decode_strings", &decode_strings);
    m.def("scan_text", &scan_text);
    m.def("parse_rows", &parse_rows);
    m.def("format_rows", &format_rows);
    m.def("weave_rows", &weave_rows);
    nb::class_<WordIndex>(m, "WordIndex")
        .def(nb::init<Bytes, Longs, Longs, uint64_t, size_t>())
        .def("find", &WordIndex::find)
        .def("find_many", &WordIndex::find_many, nb::arg("words"), nb::arg("threads") = 1)
        .def("find_table", &WordIndex::find_table)
        .def_prop_ro("duplicates", &WordIndex::duplicates, nb::rv_policy::move)
        .def_prop_ro("memory", &WordIndex::memory);
}
