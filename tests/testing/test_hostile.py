"""Hostile files: every cut, every bit, every count, and nothing twice the same as the good file."""

from __future__ import annotations

import struct

from polyvec.testing.hostile import HEAD_BYTES, WHOLE_BYTES, bit_flips, hostile_counts, truncations

GOOD = bytes(range(40)) + b' {"rows": 12, "x": 3}               '


def test_a_small_file_is_cut_at_every_byte_and_flipped_at_every_bit() -> None:
    assert [data for _, data in truncations(GOOD)] == [GOOD[:cut] for cut in range(len(GOOD))]
    flips = list(bit_flips(GOOD))
    assert len({data for _, data, _ in flips}) == 8 * len(GOOD)
    assert all(sum(a != b for a, b in zip(data, GOOD)) == 1 and data[byte] != GOOD[byte] for _, data, byte in flips)


def test_a_large_file_is_tried_at_its_head_and_tail_the_same_on_every_run() -> None:
    large = bytes(WHOLE_BYTES + 5000)
    cuts = [len(data) for _, data in truncations(large)]
    assert set(range(HEAD_BYTES)) <= set(cuts) and len(large) - 1 in cuts and len(cuts) < 2000
    assert [what for what, *_ in bit_flips(large)] == [what for what, *_ in bit_flips(large)]


def test_counts_are_put_at_every_offset_and_numerals_in_the_text() -> None:
    tried = dict(hostile_counts(GOOD))
    assert any(data[4:8] == struct.pack("<I", 2**32 - 1) and len(data) == len(GOOD) for data in tried.values())
    assert any(b'"rows": 4611686018427387904,' in data for data in tried.values())
    assert any(b'"rows": 4294967295,' in data and len(data) == len(GOOD) for data in tried.values()), "none padded"
