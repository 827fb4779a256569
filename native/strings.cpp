// Tables of strings: length-prefixed and delimited words to offsets, UTF-8 checks, packing and unpacking.
#include <algorithm>

#include "buffers.hpp"
#include "strings.hpp"

namespace polyvec {
namespace {

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
            uint64_t guess = end + strings_ahead * ((end - start) / (walked + 1));
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
    StringTable table(bytes, s, l);
    std::vector<int64_t> bad;
    {
        nb::gil_scoped_release free_threads;
        for (size_t i = 0; i < table.count; ++i) {
            if (i + strings_ahead < table.count) __builtin_prefetch(table.at(i + strings_ahead));
            if (!valid_utf8(table.at(i), table.length(i))) bad.push_back((int64_t)i);
        }
    }
    return copy_out(bad);
}

// Fills starts and stops (int64) and returns how many strings lie wholly inside the data.
std::size_t walk_strings(nb::handle data_object, std::size_t width, nb::handle starts_object, nb::handle stops_object) {
    const Buffer data(data_object, false), starts(starts_object, true), stops(stops_object, true);
    if (width != 2 && width != 4) throw nb::value_error("walk_strings: width must be 2 or 4");
    if (starts.size() != stops.size()) throw nb::value_error("walk_strings: starts and stops differ in size");
    const std::size_t count = starts.size() / sizeof(std::int64_t), end = data.size();
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (end - at < width) return i;
        std::uint32_t length = 0;
        std::memcpy(&length, data.data() + at, width);  // little endian, like every machine we build for
        at += width;
        if (end - at < length) return i;
        const std::int64_t first = static_cast<std::int64_t>(at), last = first + length;
        std::memcpy(starts.data() + i * sizeof first, &first, sizeof first);
        std::memcpy(stops.data() + i * sizeof last, &last, sizeof last);
        at += length;
    }
    return count;
}

// ---- packing Python strings ----------------------------------------------------------------------------

nb::tuple pack_strings(nb::list items) {
    size_t count = nb::len(items), total = 0;
    std::vector<const uint8_t *> data(count);
    std::vector<size_t> sizes(count);
    for (size_t i = 0; i < count; ++i) {
        if (!view_string(PyList_GET_ITEM(items.ptr(), i), data[i], sizes[i]))
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
    StringTable table(bytes, s, l);
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
            if (i + strings_ahead < table.count) __builtin_prefetch(table.at(i + strings_ahead));
            uint32_t length = (uint32_t)table.length(i);
            if (prefix) { std::memcpy(p, &length, 4); p += 4; }
            if (table.length(i)) std::memcpy(p, table.at(i), table.length(i));
            p += table.length(i);
        }
    }
    return own<uint8_t>(out, {total});
}

nb::list decode_strings(Bytes bytes, Longs s, Longs l) {
    StringTable table(bytes, s, l);
    PyObject *list = PyList_New((Py_ssize_t)table.count);
    if (!list) throw nb::python_error();
    for (size_t i = 0; i < table.count; ++i) {
        PyObject *word = PyUnicode_DecodeUTF8(reinterpret_cast<const char *>(table.at(i)), (Py_ssize_t)table.length(i), "strict");
        if (!word) { Py_DECREF(list); throw nb::python_error(); }
        PyList_SET_ITEM(list, (Py_ssize_t)i, word);
    }
    return nb::steal<nb::list>(list);
}

}  // namespace

void bind_strings(nb::module_ &m) {
    m.def("walk_table", &walk_table);
    m.def("walk_strings", &walk_strings, nb::arg("data"), nb::arg("width"), nb::arg("starts"), nb::arg("stops"));
    m.def("scan_words", &scan_words);
    m.def("find_invalid", &find_invalid);
    m.def("pack_strings", &pack_strings);
    m.def("join_table", &join_table);
    m.def("decode_strings", &decode_strings);
}

}  // namespace polyvec
