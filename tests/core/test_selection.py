"""Which rows a key asks for: Python's slices, NumPy's numbers, nothing beyond the rows. Columns are in test_columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.selection import as_slice, bounds, one_row, row_numbers, select

EDGE = st.integers(-12, 12)


@settings(max_examples=80, deadline=None)
@given(EDGE, st.none() | EDGE, st.integers(0, 9))
def test_ends_are_those_of_a_slice(start: int, stop: int | None, rows: int) -> None:
    first, last = bounds(start, stop, rows)
    assert list(range(rows))[start:stop] == list(range(first, last)) and 0 <= first <= last <= rows


@settings(max_examples=80, deadline=None)
@given(EDGE, EDGE, st.integers(-4, 4).filter(bool))
def test_a_range_is_the_slice_that_cuts_it(start: int, stop: int, step: int) -> None:
    rows = range(20)[start:stop:step]
    assert list(range(20))[as_slice(rows)] == list(rows)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ([0, -1], [0, 4]),
        (np.uint8([3]), [3]),
        ([], []),
        (range(4, -1, -2), [4, 2, 0]),
        (range(-2, 0), [3, 4]),
        (range(9, 9), []),
        ([True, False, True, False, False], [0, 2]),
        (np.array([[1, -5]]), [[1, 0]]),
    ],
)
def test_numbers_come_in_their_shape_counted_from_the_start(key: Any, wanted: Any) -> None:
    found = row_numbers(key, 5)
    assert (list(found) if isinstance(found, range) else found.tolist()) == wanted


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ([5], "rows are 0 to 4, and 5 was asked for"),
        ([0, -6], "and -6 was asked for"),
        (range(3, 7), "and 6 was asked for"),
        ([True, False], "one entry a row"),
        ([1.0], "not by float64"),
        (["a"], "not by"),
        (np.zeros(0), "not by float64"),
    ],
)
def test_numbers_that_are_no_rows_are_told(key: Any, says: str) -> None:
    with pytest.raises(IndexError, match=says):
        row_numbers(key, 5)
    with pytest.raises(IndexError, match="rows are none, and 0 was asked for"):
        row_numbers([0], 0)


def test_a_single_number_is_a_row_and_truth_is_no_number() -> None:
    assert one_row(np.int8(-1), 5) == 4 and one_row([1], 5) is None and one_row("a", 5) is None
    for bad in (True, np.bool_(False), 1.0, np.float32(0)):
        with pytest.raises(IndexError, match="whole numbers"):
            one_row(bad, 5)
    with pytest.raises(IndexError, match="row 5 of 5 rows"):
        one_row(5, 5)


ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


def chosen(key: Any) -> tuple[Any, list[tuple[int, int]]]:
    read: list[tuple[int, int]] = []

    def span(start: int, stop: int) -> Any:
        read.append((start, stop))
        return ROWS[start:stop]

    found = select(key, ROWS.shape, ROWS.dtype, "v", read=span, take=lambda rows: ROWS[rows])
    return found, read


def test_only_the_rows_that_are_asked_for_are_read() -> None:
    assert chosen(slice(1, 3))[1] == [(1, 3)] and chosen((slice(4, 2), 0))[1] == []
    found, read = chosen((3, slice(1, 3)))
    assert found.tolist() == [13, 14] and read == [(3, 4)]


def test_places_that_are_not_there_are_told_before_anything_is_read() -> None:
    for key in ((slice(None), 4), (slice(None), [0, 9]), (0, 0, 0), (..., ...), (None, 0), (0, True)):
        with pytest.raises(IndexError):
            chosen(key)


def test_what_is_cut_of_rows_does_not_hold_on_to_them() -> None:
    found, _ = chosen((slice(None), slice(0, 1)))
    assert found.base is None or found.base.size == found.size
