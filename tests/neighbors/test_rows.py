"""Rows as the kernels take them: no dtype loses a bit, blocks read what they hold or fetch."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.dtypes import BFLOAT16
from polyvec.core.errors import InputError
from polyvec.neighbors.rows import SCORED, RowBlock, scorable


@pytest.mark.parametrize("dtype", SCORED)
def test_what_the_kernels_take_is_not_copied(dtype):
    rows = np.ones((3, 4), dtype)
    assert scorable(rows) is rows


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("float16", np.float32),
        (BFLOAT16, np.float32),
        ("int16", np.float32),
        ("longdouble", np.float64),
        (">f8", np.float64),
        (">f4", np.float32),
    ],
)
def test_other_dtypes_get_the_float_that_holds_them(dtype, wanted):
    rows = np.array([[0, 1, 100], [1, 0, 3]]).astype(dtype)
    found = scorable(rows)
    assert found.dtype == wanted and found.dtype.isnative and found.flags.c_contiguous
    np.testing.assert_array_equal(found, rows.astype(np.float64))


def test_a_number_that_the_float_does_not_hold_is_refused():
    with pytest.raises(InputError, match=r"16777217 at \(1, 0\) does not fit float32"):
        scorable(np.array([[16777216], [16777217]], np.int32))


def test_rows_that_lie_apart_are_brought_together():
    rows = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    found = scorable(rows)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, rows)


def test_a_block_reads_the_rows_it_holds_and_fetches_none():
    rows = np.ones((2, 3), np.float32)
    assert RowBlock(5, 2, rows, fetch=lambda ids: pytest.fail("fetched")).read() is rows


def test_a_block_fetches_its_own_rows_by_their_numbers():
    file = np.arange(40, dtype=np.float16).reshape(10, 4)
    asked = []

    def fetch(ids):
        asked.append(ids.tolist())
        return file[ids]

    found = RowBlock(3, 4, fetch=fetch).read()
    assert asked == [[3, 4, 5, 6]] and found.dtype == np.float32
    np.testing.assert_array_equal(found, file[3:7])
