// The byte planes of float32 values: which bytes occur, codes packed most significant bit first, and back.
// Eight values of `bits` bits are `bits` whole bytes, so the work goes by groups of eight and splits anywhere
// between them; only the last group of a run may be short.
#include <nanobind/nanobind.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

#if (defined(__x86_64__) || defined(_M_X64)) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#endif

#include "buffers.hpp"
#include "dispatch.hpp"
#include "threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace polyvec {
namespace {

constexpr std::size_t group = 8;
constexpr std::size_t grain_groups = 16 * 1024;  // a thread's start costs about as much as this many groups
constexpr std::size_t planes = 4;
constexpr bool little = std::endian::native == std::endian::little;

std::size_t packed_size(std::size_t n, unsigned bits) { return n / 8 * bits + (n % 8 * bits + 7) / 8; }

// A stretch of values whose planes stay in the first-level cache while they are taken apart or put together.
constexpr std::size_t stretch = 2048;

// Marks in seen[plane * 256 + byte] the bytes that occur in each plane. A plane that has them all is left alone.
void planes_seen(nb::handle src_object, nb::handle seen_object, int threads) {
    const Buffer src(src_object, false), seen(seen_object, true);
    if (src.size() % 4 != 0) throw nb::value_error("src is not a whole number of float32 values");
    if (seen.size() != planes * 256) throw nb::value_error("seen does not have 4 * 256 bytes");
    const std::size_t n = src.size() / 4;
    const nb::gil_scoped_release released;
    std::mutex merging;
    parallel_for(n, threads, grain_groups * group, group, [&](std::size_t begin, std::size_t end) {
        std::uint8_t mine[planes][256];
        {
            const std::lock_guard<std::mutex> lock(merging);
            std::memcpy(mine, seen.data(), sizeof mine);
        }
        bool full[planes] = {};
        for (std::size_t first = begin; first < end; first += 8 * stretch) {
            const std::size_t last = std::min(first + 8 * stretch, end);
            for (std::size_t p = 0; p < planes; ++p) {
                if (full[p]) continue;
                for (std::size_t i = first; i < last; ++i) mine[p][src.data()[i * 4 + p]] = 1;
                std::size_t count = 0;
                for (std::size_t i = 0; i < 256; ++i) count += mine[p][i];
                full[p] = count == 256;
            }
        }
        const std::lock_guard<std::mutex> lock(merging);
        for (std::size_t i = 0; i < planes * 256; ++i) seen.data()[i] |= mine[i / 256][i % 256];
    });
}

inline std::uint64_t swap_bytes(std::uint64_t word) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_bswap64(word);
#else
    std::uint64_t turned = 0;
    for (int i = 0; i < 8; ++i, word >>= 8) turned = turned << 8 | (word & 255);
    return turned;
#endif
}

// Eight codes a step, `bits` bytes out; n is a multiple of 8 but at the end of a plane. Words are put together by
// shifts, so the host's byte order does not matter but for the 8-byte store.
template <unsigned bits>
void pack_codes(const std::uint8_t *codes, std::size_t n, std::uint8_t *to, const std::uint8_t *stop) {
    for (std::size_t at = 0; at < n; at += group, to += bits) {
        const std::size_t count = std::min(group, n - at);
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < group; ++i) word = word << bits | (i < count ? codes[at + i] : std::uint8_t{0});
        word <<= 64 - 8 * bits;
        const std::size_t bytes = (count * bits + 7) / 8;
        if (little && to + 8 <= stop) {
            const std::uint64_t turned = swap_bytes(word);
            std::memcpy(to, &turned, 8);  // what is too much is overwritten by the next step
        } else {
            for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(word >> (56 - 8 * i));
        }
    }
}

template <unsigned bits>
void unpack_codes(const std::uint8_t *from, const std::uint8_t *stop, std::size_t n, std::uint8_t *codes) {
    constexpr std::uint64_t mask = (1u << bits) - 1;
    for (std::size_t at = 0; at < n; at += group, from += bits) {
        std::uint64_t word = 0;
        if (little && from + 8 <= stop) {
            std::memcpy(&word, from, 8);
            word = swap_bytes(word) >> (64 - 8 * bits);
        } else {
            for (unsigned i = 0; i < bits; ++i) word = word << 8 | (from + i < stop ? from[i] : 0);
        }
        for (unsigned i = 0; i < group; ++i)  // a short last group spills into the slack of `codes`
            codes[at + i] = static_cast<std::uint8_t>(word >> (bits * (group - 1 - i)) & mask);
    }
}

using PackCodes = void (*)(const std::uint8_t *, std::size_t, std::uint8_t *, const std::uint8_t *);
using UnpackCodes = void (*)(const std::uint8_t *, const std::uint8_t *, std::size_t, std::uint8_t *);
constexpr PackCodes pack_table[9] = {nullptr,       pack_codes<1>, pack_codes<2>, pack_codes<3>, pack_codes<4>,
                                       pack_codes<5>, pack_codes<6>, pack_codes<7>, nullptr};
constexpr UnpackCodes unpack_table[9] = {nullptr,         unpack_codes<1>, unpack_codes<2>,
                                           unpack_codes<3>, unpack_codes<4>, unpack_codes<5>,
                                           unpack_codes<6>, unpack_codes<7>, nullptr};

PackCodes pack_by_bits(unsigned bits) { return pack_table[bits]; }
UnpackCodes unpack_by_bits(unsigned bits) { return unpack_table[bits]; }

#if POLYVEC_X86
// One instruction gathers or spreads the bits of eight codes.
__attribute__((target("bmi2"))) void pack_bmi2(const std::uint8_t *codes, std::size_t n, std::uint8_t *to,
                                                const std::uint8_t *stop, unsigned bits) {
    const std::uint64_t mask = 0x0101010101010101u * ((1u << bits) - 1);
    for (; n >= group && to + 8 <= stop; codes += group, to += bits, n -= group) {
        std::uint64_t word;
        std::memcpy(&word, codes, 8);
        word = swap_bytes(_pext_u64(swap_bytes(word), mask) << (64 - 8 * bits));
        std::memcpy(to, &word, 8);
    }
    pack_by_bits(bits)(codes, n, to, stop);
}
__attribute__((target("bmi2"))) void unpack_bmi2(const std::uint8_t *from, const std::uint8_t *stop, std::size_t n,
                                                  std::uint8_t *codes, unsigned bits) {
    const std::uint64_t mask = 0x0101010101010101u * ((1u << bits) - 1);
    for (; n >= group && from + 8 <= stop; codes += group, from += bits, n -= group) {
        std::uint64_t word;
        std::memcpy(&word, from, 8);
        word = swap_bytes(_pdep_u64(swap_bytes(word) >> (64 - 8 * bits), mask));
        std::memcpy(codes, &word, 8);
    }
    unpack_by_bits(bits)(from, stop, n, codes);
}
bool has_bmi2(Cpu cpu) {
    static const bool found = __builtin_cpu_supports("bmi2") != 0;
    return found && cpu >= Cpu::avx2;
}
#endif

void pack_any(const std::uint8_t *codes, std::size_t n, std::uint8_t *to, const std::uint8_t *stop, unsigned bits,
              [[maybe_unused]] Cpu cpu) {
#if POLYVEC_X86
    if (has_bmi2(cpu)) return pack_bmi2(codes, n, to, stop, bits);
#endif
    pack_by_bits(bits)(codes, n, to, stop);
}

void unpack_any(const std::uint8_t *from, const std::uint8_t *stop, std::size_t n, std::uint8_t *codes, unsigned bits,
                [[maybe_unused]] Cpu cpu) {
#if POLYVEC_X86
    if (has_bmi2(cpu)) return unpack_bmi2(from, stop, n, codes, bits);
#endif
    unpack_by_bits(bits)(from, stop, n, codes);
}

#if defined(__GNUC__) || defined(__clang__)
#define POLYVEC_INLINE inline __attribute__((always_inline))
#else
#define POLYVEC_INLINE inline
#endif

// The loops that touch every value, once for any machine and once for wider registers.
POLYVEC_INLINE void split_loop(const std::uint8_t *at, std::size_t n, std::uint8_t *to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = at[i * 4];
}
POLYVEC_INLINE void join_loop(const std::uint8_t *const *bytes, std::size_t n, std::uint32_t *to) {
    const std::uint8_t *b0 = bytes[0], *b1 = bytes[1], *b2 = bytes[2], *b3 = bytes[3];
    for (std::size_t i = 0; i < n; ++i)
        to[i] = std::uint32_t{b0[i]} | std::uint32_t{b1[i]} << 8 | std::uint32_t{b2[i]} << 16 | std::uint32_t{b3[i]} << 24;
}
#if POLYVEC_X86
__attribute__((target("avx2"))) void split_avx2(const std::uint8_t *at, std::size_t n, std::uint8_t *to) {
    split_loop(at, n, to);
}
__attribute__((target("avx2"))) void join_avx2(const std::uint8_t *const *bytes, std::size_t n, std::uint32_t *to) {
    join_loop(bytes, n, to);
}
#endif

void split_bytes(const std::uint8_t *at, std::size_t n, std::uint8_t *to, [[maybe_unused]] Cpu cpu) {
#if POLYVEC_X86
    if (cpu >= Cpu::avx2) return split_avx2(at, n, to);
#endif
    split_loop(at, n, to);
}

void join_bytes(const std::uint8_t *const *bytes, std::size_t n, std::uint32_t *to, [[maybe_unused]] Cpu cpu) {
#if POLYVEC_X86
    if (cpu >= Cpu::avx2) return join_avx2(bytes, n, to);
#endif
    join_loop(bytes, n, to);
}

// Packs plane `plane` of the values: table[byte] is its code of `bits` bits.
void planes_pack(nb::handle src_object, int plane, int bits, nb::handle table_object, nb::handle out_object,
                 int threads) {
    const Buffer src(src_object, false), table(table_object, false), out(out_object, true);
    if (src.size() % 4 != 0) throw nb::value_error("src is not a whole number of float32 values");
    if (table.size() != 256) throw nb::value_error("table does not have 256 bytes");
    if (plane < 0 || plane > 3 || bits < 1 || bits > 8) throw nb::value_error("plane is 0..3, bits are 1..8");
    const std::size_t n = src.size() / 4;
    const unsigned width = static_cast<unsigned>(bits);
    if (out.size() != packed_size(n, width)) throw nb::value_error("out does not have the packed size");
    std::uint8_t codes[256];
    std::memcpy(codes, table.data(), 256);
    bool same = true;
    for (int i = 0; i < 256; ++i) same = same && codes[i] == i;
    const Cpu cpu = current_cpu();
    const nb::gil_scoped_release released;
    parallel_for(n, threads, grain_groups * group, stretch, [&](std::size_t begin, std::size_t end) {
        // A piece of work may only write its own bytes: the 8-byte stores stop where it stops.
        const std::uint8_t *stop = out.data() + packed_size(end, width);
        std::uint8_t local[stretch];
        for (std::size_t first = begin; first < end; first += stretch) {
            const std::size_t count = std::min(stretch, end - first);
            const std::uint8_t *at = src.data() + first * 4 + plane;
            std::uint8_t *to = width == 8 ? out.data() + first : local;
            split_bytes(at, count, to, cpu);
            if (!same)
                for (std::size_t i = 0; i < count; ++i) to[i] = codes[to[i]];
            if (width < 8) pack_any(local, count, out.data() + first / 8 * width, stop, width, cpu);
        }
    });
}

// Unpacks `out` float32 values from four packed planes that lie at `starts` of `src`; dictionaries are
// 4 * 256 bytes of which sizes[plane] count. False where a code has no byte in its dictionary.
bool planes_unpack(nb::handle src_object, std::size_t a, std::size_t b, std::size_t c, std::size_t d,
                   nb::handle bits_object, nb::handle dictionary_object, nb::handle sizes_object,
                   nb::handle out_object, int threads) {
    const Buffer src(src_object, false), bits(bits_object, false), dictionary(dictionary_object, false),
        sizes(sizes_object, false), out(out_object, true);
    if (bits.size() != planes || dictionary.size() != planes * 256 || sizes.size() != planes * 2)
        throw nb::value_error("bits, dictionary and sizes do not describe four planes");
    if (out.size() % 4 != 0) throw nb::value_error("out is not a whole number of float32 values");
    const std::size_t n = out.size() / 4;
    const std::size_t starts[planes] = {a, b, c, d};
    const std::uint8_t *from[planes], *stops[planes];
    unsigned width[planes];
    std::uint8_t tables[planes][256], largest[planes] = {};
    bool same[planes], whole[planes];
    std::memcpy(tables, dictionary.data(), sizeof tables);
    for (std::size_t p = 0; p < planes; ++p) {
        width[p] = bits.data()[p];
        if (width[p] < 1 || width[p] > 8) throw nb::value_error("bits are 1..8");
        const std::size_t size = packed_size(n, width[p]);
        if (starts[p] > src.size() || size > src.size() - starts[p]) throw nb::value_error("a plane leaves src");
        from[p] = src.data() + starts[p];
        stops[p] = from[p] + size;
        std::uint16_t count;
        std::memcpy(&count, sizes.data() + p * 2, 2);
        if (count == 0 && n != 0) return false;
        largest[p] = static_cast<std::uint8_t>(count - 1);
        whole[p] = count >= (1u << width[p]);
        same[p] = count == 256;
        for (std::size_t i = 0; same[p] && i < 256; ++i) same[p] = tables[p][i] == i;
    }
    std::atomic<bool> good{true};
    const Cpu cpu = current_cpu();
    const nb::gil_scoped_release released;
    parallel_for(n, threads, grain_groups * group, stretch, [&](std::size_t begin, std::size_t end) {
        std::uint8_t local[planes][stretch + group];
        std::uint32_t values[stretch];
        bool flawed = false;
        for (std::size_t first = begin; first < end; first += stretch) {
            const std::size_t count = std::min(stretch, end - first);
            const std::uint8_t *bytes[planes];
            for (std::size_t p = 0; p < planes; ++p) {
                const std::uint8_t *codes = local[p];
                if (width[p] == 8)
                    codes = from[p] + first;
                else
                    unpack_any(from[p] + first / 8 * width[p], stops[p], count, local[p], width[p], cpu);
                if (!whole[p]) {
                    std::uint8_t most = 0;
                    for (std::size_t i = 0; i < count; ++i) most = codes[i] > most ? codes[i] : most;
                    flawed = flawed || most > largest[p];
                }
                bytes[p] = codes;
                if (!same[p]) {
                    for (std::size_t i = 0; i < count; ++i) local[p][i] = tables[p][codes[i]];
                    bytes[p] = local[p];
                }
            }
            join_bytes(bytes, count, values, cpu);
            std::memcpy(out.data() + first * 4, values, count * 4);
        }
        if (flawed) good = false;
    });
    return good;
}

}  // namespace

void bind_planes(nb::module_ &m) {
    m.def("planes_seen", &planes_seen, "src"_a, "seen"_a, "threads"_a);
    m.def("planes_pack", &planes_pack, "src"_a, "plane"_a, "bits"_a, "table"_a, "out"_a, "threads"_a);
    m.def("planes_unpack", &planes_unpack, "src"_a, "a"_a, "b"_a, "c"_a, "d"_a, "bits"_a, "dictionary"_a,
          "sizes"_a, "out"_a, "threads"_a);
}

}  // namespace polyvec
