"""float16 and bfloat16: nearest even, and nothing becomes infinity that was a number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

from polyvec.codecs import BFloat16, Float16
from polyvec.core.blocks import Block, Codec
from polyvec.core.errors import InputError
from polyvec.testing import strategies, vectors

few = settings(max_examples=60, deadline=None)


def block_of(codec: Codec, rows: np.ndarray) -> Block:
    return Block(0, codec.encode(rows), codec, len(rows))


@given(rows=strategies.arrays(np.float32, bound=65504.0))
@few
def test_float16_is_within_half_a_step(rows: np.ndarray) -> None:
    found = block_of(Float16(), rows).decode()
    assert found.dtype == np.float32
    assert np.array_equal(found, rows.astype(np.float16).astype(np.float32))
    assert (np.abs(found - rows) <= np.maximum(np.abs(rows) * 2.0**-11, 2.0**-25)).all()


@given(rows=strategies.arrays(np.float32, bound=3e38))
@few
def test_bfloat16_is_numpys_and_within_its_precision(rows: np.ndarray) -> None:
    found = block_of(BFloat16(), rows).decode()
    assert np.array_equal(found, rows.astype(ml_dtypes.bfloat16).astype(np.float32))
    with np.errstate(over="ignore"):
        assert (np.abs(found.astype("f8") - rows) <= np.maximum(np.abs(rows.astype("f8")) * 2.0**-8, 1e-40)).all()


def test_what_does_not_fit_float16_is_refused_with_its_place() -> None:
    rows = vectors(3, 4)
    rows[2, 1] = 70000
    with pytest.raises(InputError, match="70000 in row 2, column 1 does not fit"):
        Float16().encode(rows)
    assert np.isinf(Float16(allow_overflow=True).encode(rows)["codes"][2, 1])


@pytest.mark.parametrize("value", [65504.0, 65519.9, -65504.0])
def test_the_largest_half_and_what_rounds_to_it_are_kept(value: float) -> None:
    rows = np.float32([[value]])
    assert block_of(Float16(), rows).decode()[0, 0] == np.copysign(65504, value)
    with pytest.raises(InputError, match="row 7, column 0"):
        Float16().encode(np.sign(rows) * np.float32(65520), start=7)


def test_numbers_that_are_none_pass_through_both() -> None:
    rows = np.float32([[np.inf, -np.inf, np.nan]])
    for codec in (Float16(), BFloat16()):
        assert np.array_equal(block_of(codec, rows).decode(), rows, equal_nan=True)


def test_overflow_that_is_allowed_is_infinity() -> None:
    assert np.isposinf(block_of(Float16(allow_overflow=True), np.float32([[1e6]])).decode()[0, 0])


def test_a_row_takes_two_bytes_a_value() -> None:
    assert Float16().row_bytes((3,)) == BFloat16().row_bytes((3,)) == 6
    assert BFloat16().encode(np.zeros((1, 2), np.float32))["codes"].dtype == ml_dtypes.bfloat16
