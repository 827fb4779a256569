// CRC-32 (the zlib polynomial), by carry-less multiplication where the CPU has it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dispatch.hpp"

namespace polyvec {

// The checksum of `n` bytes that follow bytes whose checksum is `crc` (0 at the start), as zlib counts.
std::uint32_t crc32(const std::uint8_t *p, std::size_t n, std::uint32_t crc, Cpu cpu);

// Checksums of pieces put together: appending n bytes multiplies by crc32_shift(n), and adds theirs (xor).
std::uint32_t crc32_shift(std::size_t bytes);
std::uint32_t crc32_multiply(std::uint32_t one, std::uint32_t other);

}  // namespace polyvec
