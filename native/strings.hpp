// What the string kernels share: tables of strings, Python's strings, a few loads.
#pragma once
#include "arrays.hpp"

namespace polyvec {

constexpr size_t strings_ahead = 16;  // how many strings before it is needed one is prefetched

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

// A table of strings: bytes that stay where they are, a start and a stop each.
struct StringTable {
    const uint8_t *data;
    size_t size;
    const int64_t *starts;
    const int64_t *stops;
    size_t count;

    StringTable(const Bytes &bytes, const Longs &first, const Longs &last)
        : data(bytes.data()), size(bytes.size()), starts(first.data()), stops(last.data()), count(first.size()) {
        if (last.size() != count) throw nb::value_error("starts and stops differ in number");
        for (size_t i = 0; i < count; ++i)
            if (starts[i] < 0 || starts[i] > stops[i] || (uint64_t)stops[i] > size)
                throw nb::index_error("a string lies outside its bytes");
    }
    const uint8_t *at(size_t i) const { return data + starts[i]; }
    size_t length(size_t i) const { return (size_t)(stops[i] - starts[i]); }
};

// A Python str's UTF-8, or a bytes object's bytes; false where there is none (a lone surrogate).
inline bool view_string(PyObject *item, const uint8_t *&data, size_t &size) {
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

}  // namespace polyvec
