"""Affine uint8: 256 steps over the range of the rows, two roundings, and a step that is never too small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.codecs import AffineUint8
from polyvec.codecs.affine import refuse_first, step_of
from polyvec.core.blocks import Block, Codec
from polyvec.core.errors import InputError
from polyvec.testing import strategies

EPSILON = float(np.finfo(np.float32).eps)
FLOATS = strategies.arrays(np.float32, min_rows=1, bound=1e30)
few = settings(max_examples=60, deadline=None)


def block_of(codec: Codec, rows: np.ndarray) -> Block:
    return Block(0, codec.encode(rows), codec, len(rows))


@given(rows=FLOATS)
@few
def test_affine_follows_its_formula_in_two_roundings(rows: np.ndarray) -> None:
    codec = AffineUint8.fit([rows])
    low, scale = np.float32(codec.minimum), np.float32(codec.scale)
    block = block_of(codec, rows)
    codes = block.parts["codes"]
    assert codec.minimum == rows.min()
    with np.errstate(all="ignore"):
        expected = np.clip(np.rint((rows - low) / scale), 0, 255).astype(np.uint8)
        assert np.array_equal(codes, expected)
        decoded = (codes.astype(np.float32) * scale).astype(np.float32) + low
    assert np.array_equal(block.decode(), decoded)


@given(rows=FLOATS)
@few
def test_affine_is_within_half_a_step(rows: np.ndarray) -> None:
    codec = AffineUint8.fit([rows])
    error = np.abs(block_of(codec, rows).decode().astype("f8") - rows).max()
    largest = float(np.abs(rows).max())
    # a range below float32's smallest normal has a scale of few bits: its step is then the larger error
    assert error <= codec.scale / 2 + 8 * EPSILON * largest + 256 * 1.5e-45


@given(rows=FLOATS, cut=st.integers(0, 9))
@few
def test_affine_fits_the_same_in_pieces(rows: np.ndarray, cut: int) -> None:
    assert AffineUint8.fit([rows[:cut], rows[cut:]]) == AffineUint8.fit([rows])


def test_constant_and_missing_rows_have_scale_one() -> None:
    assert AffineUint8.fit([np.full((3, 2), 7, np.float32)]) == AffineUint8(7.0, 1.0)
    assert AffineUint8.fit([]) == AffineUint8(0.0, 1.0)


def test_a_range_beyond_float32_is_refused() -> None:
    with pytest.raises(InputError, match="span more than float32"):
        AffineUint8.fit([np.array([[-3e38, 3e38]], np.float32)])


@few
@given(st.floats(0, 2.0**127, width=32), st.sampled_from([7, 127, 255]))
def test_a_step_times_its_levels_reaches_the_span_and_no_infinity(span: float, levels: int) -> None:
    step = step_of(np.float32(span), levels)
    with np.errstate(over="raise"):
        reached = float(step * np.float32(levels))
    assert reached >= span * (1 - 2.0**-22) and (span == 0) == (step == 0)


def test_the_first_bad_value_is_told_with_its_row_and_column() -> None:
    rows = np.float32([[1, 2], [3, np.nan]])
    refuse_first(rows, np.zeros((2, 2), bool), 0, "is bad")
    with pytest.raises(InputError, match=r"^nan in row 11, column 1 is bad$"):
        refuse_first(rows, np.isnan(rows), 10, "is bad")
    with pytest.raises(InputError, match=r"^nan in row 1 is bad$"):
        refuse_first(rows[:, 1], np.isnan(rows[:, 1]), 0, "is bad")
