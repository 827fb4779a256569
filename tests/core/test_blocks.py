"""Codecs, extents and blocks: slices count bytes and rows rightly, and a cast changes no number in silence."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.codecs import BytePlanes, ScaledInt8
from polyvec.core.blocks import (
    BLOCK_BYTES,
    MAX_BLOCK_BYTES,
    Block,
    Extent,
    Part,
    Raw,
    bounded_rows,
    cast,
    rows_per_block,
)
from polyvec.core.errors import InputError, LossyConversion

FLOAT = Raw(np.dtype("<f4"))


def test_a_slice_of_an_extent_counts_in_rows_bytes_and_parts() -> None:
    whole = Extent(10, 6, 1000, 6 * 3, ScaledInt8(), crc=5, others=(Part("scale", 2000),))
    part = whole.slice(2, 5, (3,))
    assert (part.start, part.rows, part.offset, part.size, part.crc) == (12, 3, 1006, 9, None)
    assert part.others == (Part("scale", 2008),)
    assert whole.slice(0, 6, (3,)) is whole and pickle.loads(pickle.dumps(whole)) == whole


def test_a_slice_of_rows_that_lie_apart_keeps_their_distance() -> None:
    part = Extent(0, 6, 100, 6 * 16, FLOAT, stride=16).slice(1, 3, (2,))
    assert (part.offset, part.size, part.stride) == (116, 32, 16)


def test_rows_of_one_piece_are_not_sliced() -> None:
    whole = Extent(0, 6, 100, 50, BytePlanes((2,)))
    with pytest.raises(ValueError, match="cannot be sliced"):
        whole.slice(1, 3, (2,))
    assert whole.slice(0, 6, (2,)) is whole


def test_a_slice_of_a_block_is_a_view_of_every_part() -> None:
    codes, scale = np.arange(12, dtype=np.int8).reshape(4, 3), np.arange(4, dtype=np.float32)
    part = Block(5, {"codes": codes, "scale": scale}, ScaledInt8(), 4).slice(1, 3)
    assert (part.start, part.rows, part.nbytes) == (6, 2, 6 + 8)
    assert np.shares_memory(part.parts["codes"], codes) and part.parts["scale"].tolist() == [1, 2]


def test_a_block_is_whole_where_every_part_has_a_row_each() -> None:
    codes = np.zeros((4, 3), np.int8)
    assert Block(0, {"codes": codes, "scale": np.zeros(4, np.float32)}, ScaledInt8(), 4).whole((3,))
    assert not Block(0, {"codes": codes, "scale": np.zeros(3, np.float32)}, ScaledInt8(), 4).whole((3,))
    assert not Block(0, {"codes": codes}, FLOAT, -1).whole((3,))
    assert Block(0, {"codes": np.zeros(99, np.uint8)}, BytePlanes((3,)), 4).whole((3,))


def test_raw_decodes_without_a_copy_or_into_what_is_given() -> None:
    rows = np.float32([[1, 2]])
    block = Block(0, {"codes": rows}, FLOAT, 1)
    assert block.decode() is rows
    out = np.empty((1, 2), np.float64)
    assert block.decode(out) is out and out.tolist() == [[1, 2]]
    with pytest.raises(TypeError):
        block.decode(np.empty((1, 2), np.int32))


@pytest.mark.parametrize(
    ("rows", "dtype", "says"),
    [
        ([300], "u1", "300 at (0,)"),
        ([-1], "u4", "-1 at (0,)"),
        ([2**24 + 1], "f4", "16777217 at (0,)"),
        ([2**63 - 1], "f8", "9223372036854775807 at (0,)"),
        ([0, 4097], "f2", "4097 at (1,)"),
        ([-(2**63)], "f2", "-9223372036854775808 at (0,)"),
    ],
)
def test_a_whole_number_that_would_change_is_refused_with_its_place(rows, dtype: str, says: str) -> None:
    with pytest.raises(InputError, match="does not fit") as caught:
        cast(np.array(rows, np.int64), np.dtype(dtype))
    assert says in str(caught.value)


def test_uint64_is_compared_as_whole_numbers() -> None:
    top = np.array([2**64 - 1], np.uint64)
    with pytest.raises(InputError):
        cast(top, np.dtype("f8"))
    assert cast(np.array([2**63], np.uint64), np.dtype("f8"))[0] == 2.0**63


def test_floats_round_overflow_is_refused_and_infinity_stays() -> None:
    assert cast(np.float32([[0.1]]), np.dtype("<f2")).tobytes() == np.float16([[0.1]]).tobytes()
    with pytest.raises(InputError, match=r"1e\+39 at \(1,\) does not fit float32"):
        cast(np.array([1.0, 1e39]), np.dtype("f4"))
    with pytest.raises(InputError, match="does not fit float16"):
        cast(np.float32([70000]), np.dtype("<f2"))
    assert np.isinf(cast(np.array([np.inf]), np.dtype("f4")))[0]
    assert np.isnan(cast(np.array([np.nan]), np.dtype("<f2")))[0]


def test_floats_are_never_cut_to_whole_numbers() -> None:
    for kind in (np.float32, np.float16, ml_dtypes.bfloat16):
        with pytest.raises(LossyConversion, match="would be cut to int32"):
            cast(np.zeros(1, kind), np.dtype("i4"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.sampled_from(["i1", "u1", "i4", "u8", "f2", "f4", "f8"])
)
def test_a_cast_gives_the_same_numbers_or_refuses(values: list[int], dtype: str) -> None:
    rows = np.array(values, np.int64)
    try:
        found = cast(rows, np.dtype(dtype))
    except InputError:
        return
    assert [int(value) for value in found] == values


def test_blocks_are_bounded_and_never_empty() -> None:
    kind = np.dtype("f4")
    assert rows_per_block(kind, (1024,)) * 4096 == BLOCK_BYTES
    assert rows_per_block(kind, (2**40,)) == 1 and rows_per_block(kind, ()) == BLOCK_BYTES // 4
    assert bounded_rows(None, kind, (1024,)) == rows_per_block(kind, (1024,))
    assert bounded_rows(10**9, kind, (1024,)) * 4096 == MAX_BLOCK_BYTES
    assert bounded_rows(3, kind, (1024,)) == 3
