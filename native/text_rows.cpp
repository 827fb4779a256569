// Rows beside their words: the lines of text embeddings read and written, and blocks of words woven with the bytes of rows.
#include <charconv>
#include <string>

#include "strings.hpp"

namespace polyvec {
namespace {

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
    StringTable table(bytes, s, l);
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
nb::bytes weave_rows(Bytes bytes, Longs s, Longs l, Codes rows,
                     nb::bytes middle, nb::bytes tail) {
    StringTable table(bytes, s, l);
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

}  // namespace

void bind_text_rows(nb::module_ &m) {
    m.def("scan_text", &scan_text);
    m.def("parse_rows", &parse_rows);
    m.def("format_rows", &format_rows);
    m.def("weave_rows", &weave_rows);
}

}  // namespace polyvec
