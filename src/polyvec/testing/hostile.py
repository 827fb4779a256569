"""Hostile files, made from good ones: cut, with flipped bits, with counts that promise the world."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np

WHOLE_BYTES = 2048  # files up to this size are tried at every byte and bit
HEAD_BYTES = 512  # of larger files, the part tried at every byte: headers lie there
SAMPLED = 1500  # further places tried in larger files

COUNTS = (
    ("<I", (0, 2**31 - 1, 2**32 - 1)),
    ("<Q", (2**40, 2**61, 2**63 - 1, 2**64 - 1)),
    (">Q", (2**40,)),
)
NUMERALS = (b"0", b"-1", b"4294967295", b"4611686018427387904", b"99999999999999999999", b"1e308")

Hostile = tuple[str, bytes]


def truncations(data: bytes) -> Iterator[Hostile]:
    """The file cut at every byte; a large one at those of its head, its tail and a sample between."""
    for cut in _places(len(data), SAMPLED // 4):
        yield f"cut to {cut} of {len(data)} bytes", data[:cut]


def bit_flips(data: bytes) -> Iterator[tuple[str, bytes, int]]:
    """The file with each bit flipped in turn (sampled in a large one), and the byte that it is in."""
    size = len(data)
    if size <= WHOLE_BYTES:
        bits = [(byte, bit) for byte in range(size) for bit in range(8)]
    else:
        head = [(byte, bit) for byte in range(HEAD_BYTES) for bit in range(8)]
        rest = np.random.default_rng(size).integers(HEAD_BYTES * 8, size * 8, SAMPLED)
        bits = head + [(int(place) // 8, int(place) % 8) for place in rest]
    for byte, bit in bits:
        yield f"bit {bit} of byte {byte} flipped", flipped(data, byte, bit), byte


def flipped(data: bytes, byte: int, bit: int = 0) -> bytes:
    """The file with one bit flipped."""
    changed = bytearray(data)
    changed[byte] ^= 1 << bit
    return bytes(changed)


def hostile_counts(data: bytes) -> Iterator[Hostile]:
    """The file with every number its head may hold replaced: binary counts at each offset, numerals in text."""
    dense = min(len(data), HEAD_BYTES // 4)
    for offset in (*range(dense), *range(dense, min(len(data), HEAD_BYTES), 4)):
        for code, counts in COUNTS:
            width = struct.calcsize(code)
            if offset + width > len(data):
                continue
            for count in counts:
                value = struct.pack(code, count)
                yield f"{value.hex()} at byte {offset}", data[:offset] + value + data[offset + width :]
    yield from _numerals(data)


def _numerals(data: bytes) -> Iterator[Hostile]:
    """Numbers in text headers replaced; padding spaces after them pay for the longer ones."""
    for match in list(re.finditer(rb"\d+", data[: 4 * HEAD_BYTES]))[:64]:
        start, stop = match.span()
        for numeral in NUMERALS:
            grown = len(numeral) - (stop - start)
            place = f"number at byte {start} made {numeral.decode()}"
            yield place, data[:start] + numeral + data[stop:]
            padding = re.search(rb" {%d,}" % max(1, grown), data[stop:])
            if grown > 0 and padding:
                at = stop + padding.start()
                yield f"{place}, padded", data[:start] + numeral + data[stop:at] + data[at + grown :]
            elif grown < 0:
                yield f"{place}, padded", data[:start] + numeral.rjust(stop - start) + data[stop:]


def _places(size: int, sampled: int) -> list[int]:
    if size <= WHOLE_BYTES:
        return list(range(size))
    between = np.random.default_rng(size).integers(HEAD_BYTES, size, sampled)
    return sorted({*range(HEAD_BYTES), *map(int, between), *range(size - 64, size)})
