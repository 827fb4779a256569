// Tables of length-prefixed strings: a vocabulary's starts and stops in one pass.
#include <nanobind/nanobind.h>

#include <cstring>

#include "buffers.hpp"

namespace nb = nanobind;

namespace {

// Fills starts and stops (int64) and returns how many strings lie wholly inside the data.
std::size_t walk_strings(nb::handle data_object, std::size_t width, nb::handle starts_object, nb::handle stops_object) {
    polyvec::Buffer data(data_object, false), starts(starts_object, true), stops(stops_object, true);
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

}  // namespace

void bind_prefixed(nb::module_ &m) {
    m.def("walk_strings", &walk_strings, nb::arg("data"), nb::arg("width"), nb::arg("starts"), nb::arg("stops"));
}
