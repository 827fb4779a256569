"""Extents read: packed, apart, in several parts; a wrong checksum is told with its rows and place."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.codecs import BytePlanes, ScaledInt8
from polyvec.core.blocks import Block, Extent, Part, Raw
from polyvec.core.errors import Corrupt, Truncated
from polyvec.core.extents import Scratch, crc_of, decoded_slices, read_extent
from polyvec.kernels import crc32
from polyvec.testing import MemorySource, vectors

ROWS = vectors(5, 3)
FLOAT = Raw(np.dtype("<f4"))


def test_packed_rows_and_rows_that_lie_apart_are_the_same() -> None:
    packed = MemorySource(b"head" + ROWS.tobytes(), "a")
    wide = np.zeros((5, 20), np.uint8)
    wide[:, :12] = ROWS.view(np.uint8)
    apart = MemorySource(b"head" + wide.tobytes()[:-8], "b")  # the last row has no gap after it
    one = read_extent(packed, Extent(7, 5, 4, 60, FLOAT), (3,))
    two = read_extent(apart, Extent(7, 5, 4, 92, FLOAT, stride=20), (3,))
    assert one.start == two.start == 7 and one.decode().tobytes() == two.decode().tobytes() == ROWS.tobytes()
    assert read_extent(apart, Extent(0, 0, 4, 0, FLOAT, stride=20), (3,)).decode().shape == (0, 3)


def test_parts_that_lie_elsewhere_are_read_from_there() -> None:
    codes, scale = np.int8([[1, -2]]), np.float32([0.5])
    source = MemorySource(scale.tobytes() + codes.tobytes(), "a")
    block = read_extent(source, Extent(0, 1, 4, 2, ScaledInt8(), others=(Part("scale", 0),)), (2,))
    assert block.decode().tolist() == [[0.5, -1]]


def test_a_wrong_checksum_is_told_and_only_where_it_is_asked_for() -> None:
    source = MemorySource(b"1234" + ROWS.tobytes(), "a.cvc")
    right = Extent(10, 5, 4, 60, FLOAT, crc=crc32(ROWS.tobytes()))
    assert read_extent(source, right, (3,), check=True).rows == 5
    wrong = Extent(10, 5, 4, 60, FLOAT, crc=7)
    assert read_extent(source, wrong, (3,)).rows == 5
    with pytest.raises(Corrupt, match="rows 10 to 14 fail their checksum") as caught:
        read_extent(source, wrong, (3,), check=True)
    assert (caught.value.offset, caught.value.expected, caught.value.path) == (4, "0x00000007", "a.cvc")


def test_bytes_that_are_not_there_are_truncated() -> None:
    with pytest.raises(Truncated):
        read_extent(MemorySource(ROWS.tobytes()[:-1], "a"), Extent(0, 5, 0, 60, FLOAT), (3,))


def test_a_scratch_buffer_is_used_again_and_grows() -> None:
    scratch = Scratch()
    first = scratch.array("codes", (4, 2), np.dtype("f4"))
    assert np.shares_memory(first, scratch.array("codes", (3, 2), np.dtype("f4")))
    assert not np.shares_memory(first, scratch.array("scale", (3,), np.dtype("f4")))
    assert not np.shares_memory(first, scratch.array("codes", (40, 2), np.dtype("f4")))
    assert scratch.array("codes", (2, 3), np.dtype("i2")).shape == (2, 3)


def test_rows_of_one_piece_are_decoded_once_and_cut() -> None:
    codec = BytePlanes((3,))
    block = Block(100, codec.encode(ROWS), codec, 5)
    pieces = list(decoded_slices(block, 1, 5, 3))
    assert [(piece.start, piece.rows) for piece in pieces] == [(101, 3), (104, 1)]
    assert np.concatenate([piece.decode() for piece in pieces]).tobytes() == ROWS[1:].tobytes()
    assert list(decoded_slices(block, 0, 5, 5)) == [block]


def test_a_checksum_goes_on_from_another() -> None:
    assert crc_of(ROWS[2:], crc_of(ROWS[:2], 0)) == crc32(ROWS.tobytes())
