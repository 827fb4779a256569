// Casts between a file and memory. The codes pass through a buffer that stays in the second-level cache, where their
// CRC-32 is taken too, so that each stored byte is moved once. One thread a call: callers bring their own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include <fcntl.h>

#include "buffers.hpp"
#include "casts.hpp"
#include "crc.hpp"
#include "fileio.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace polyvec {
namespace {

constexpr std::size_t stretch = 256 << 10;  // of codes; measured: more leaves the cache, less waits for the file's lock

struct Kind {
    const char *name;
    std::size_t bytes;
    CastKernel CastTable::*decode, CastTable::*encode;
};

constexpr Kind kinds[] = {{"f16", 2, &CastTable::f16_to_f32, &CastTable::f32_to_f16},
                          {"bf16", 2, &CastTable::bf16_to_f32, &CastTable::f32_to_bf16},
                          {"u8", 1, &CastTable::u8_to_f32, &CastTable::f32_to_u8},
                          {"i8", 1, &CastTable::i8_to_f32_div, &CastTable::f32_to_i8_mul}};

const Kind &find_kind(const char *name) {
    for (const Kind &kind : kinds)
        if (std::strcmp(kind.name, name) == 0) return kind;
    throw nb::value_error("unknown kind of codes");
}

// How many codes to move at `offset`: up to the next multiple of `stretch`, so that all but the ends are whole pages.
std::size_t next_count(std::int64_t offset, std::size_t left, std::size_t bytes) {
    const std::size_t room = stretch - static_cast<std::size_t>(offset) % stretch;
    return std::min(left, std::max<std::size_t>(1, room / bytes));
}

std::size_t count_floats(const Buffer &floats) {
    if (floats.size() % 4 != 0) throw nb::value_error("not a whole number of float32");
    return floats.size() / 4;
}

// Whether a number of two bytes is an infinity or a NaN: all bits of its exponent are set.
bool beyond_numbers(const std::uint8_t *codes, std::size_t n, std::uint16_t exponent) {
    std::uint16_t found = 0;
    for (std::size_t i = 0; i < n; ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, codes + 2 * i, 2);
        found |= static_cast<std::uint16_t>((bits & exponent) == exponent);
    }
    return found != 0;
}

// The CRC-32 of the codes read, and 0, the errno of the read that failed, or -1 at the end of the file.
std::tuple<std::uint32_t, int> read_cast(int fd, std::int64_t offset, nb::handle out_object, const char *name, float a,
                                         float b, bool check) {
    const Buffer out(out_object, true);
    const Kind &kind = find_kind(name);
    const std::size_t n = count_floats(out);
    const Cpu cpu = current_cpu();
    const CastKernel decode = cast_table(cpu).*kind.decode;
    std::vector<std::uint8_t> codes(std::min(n * kind.bytes, stretch));
    const nb::gil_scoped_release released;
    const PlainFloats plain;
    std::uint32_t crc = 0;
    for (std::size_t at = 0, count; at < n; at += count) {
        count = next_count(offset, n - at, kind.bytes);
        const std::size_t size = count * kind.bytes;
        if (const int failed = read_all(fd, codes.data(), size, offset)) return {0, failed};
        if (check) crc = crc32(codes.data(), size, crc, cpu);
        decode(codes.data(), out.data() + 4 * at, count, a, b, 4 * n >= stream_bytes);
        offset += static_cast<std::int64_t>(size);
    }
    fence_streams();
    return {crc, 0};
}

// The CRC-32 of the codes written, whether all are numbers (told of float16 and bfloat16 only), and 0 or the errno of the write that failed.
std::tuple<std::uint32_t, bool, int> write_cast(int fd, std::int64_t offset, nb::handle values_object, const char *name,
                                                float a, float b) {
    const Buffer values(values_object, false);
    const Kind &kind = find_kind(name);
    const std::size_t n = count_floats(values);
    const Cpu cpu = current_cpu();
    const CastKernel encode = cast_table(cpu).*kind.encode;
    const bool half = kind.encode == &CastTable::f32_to_f16, brain = kind.encode == &CastTable::f32_to_bf16;
    std::vector<std::uint8_t> codes(std::min(n * kind.bytes, stretch));
    const nb::gil_scoped_release released;
    const PlainFloats plain;
    std::uint32_t crc = 0;
    bool numbers = true;
    for (std::size_t at = 0, count; at < n; at += count) {
        count = next_count(offset, n - at, kind.bytes);
        const std::size_t size = count * kind.bytes;
        encode(values.data() + 4 * at, codes.data(), count, a, b, false);
        if ((half || brain) && beyond_numbers(codes.data(), count, half ? 0x7c00 : 0x7f80)) numbers = false;
        crc = crc32(codes.data(), size, crc, cpu);
        if (const int failed = write_all(fd, codes.data(), size, offset)) return {0, numbers, failed};
        offset += static_cast<std::int64_t>(size);
    }
    return {crc, numbers, 0};
}

// Asks the file system for room, so that writes need not look for it: 0, or the errno. Never writes zeros instead.
int allocate(int fd, std::int64_t offset, std::int64_t size) {
#if defined(__linux__)
    const nb::gil_scoped_release released;
    while (fallocate(fd, 0, offset, size) != 0)
        if (errno != EINTR) return errno;
    return 0;
#else
    (void)fd, (void)offset, (void)size;
    return EOPNOTSUPP;
#endif
}

}  // namespace

void bind_filecasts(nb::module_ &m) {
    m.def("read_cast", &read_cast, "fd"_a, "offset"_a, "out"_a, "kind"_a, "a"_a, "b"_a, "check"_a);
    m.def("write_cast", &write_cast, "fd"_a, "offset"_a, "values"_a, "kind"_a, "a"_a, "b"_a);
    m.def("allocate", &allocate, "fd"_a, "offset"_a, "size"_a);
}

}  // namespace polyvec
