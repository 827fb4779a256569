"""What is searched: arrays, columns, collections and files as blocks of rows, whole and in order."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, ReaderColumn
from polyvec.core.errors import InputError
from polyvec.neighbors import inputs
from polyvec.neighbors.inputs import (
    check_vectors,
    memory_view,
    opened,
    opened_queries,
    pick_column,
    row_blocks,
    scorable,
)
from polyvec.testing import vectors

ROWS = vectors(50, 4)


def lazy(rows: np.ndarray) -> ReaderColumn:
    return ReaderColumn("v", rows.shape, rows.dtype, lambda start, stop: rows[start:stop])


@pytest.mark.parametrize("make", [lambda r: ArrayColumn("v", r), lazy], ids=["memory", "read"])
@pytest.mark.parametrize("span", [(0, None), (7, 31), (50, 50)])
def test_blocks_are_the_rows_in_order(make, span, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 9 * 16)
    blocks = list(row_blocks(make(ROWS), start=span[0], stop=span[1]))
    found = np.concatenate([np.empty((0, 4), np.float32), *(block.rows for block in blocks)])
    assert found.tobytes() == ROWS[span[0] : span[1]].tobytes()
    assert all(len(block.rows) <= 9 for block in blocks)


def test_a_mask_chooses_rows_and_they_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 9 * 16)
    wanted = np.arange(50) % 3 == 0
    blocks = list(row_blocks(lazy(ROWS), mask=lambda start, stop: wanted[start:stop]))
    assert np.concatenate([block.ids for block in blocks]).tolist() == np.flatnonzero(wanted).tolist()
    assert np.concatenate([block.rows for block in blocks]).tobytes() == ROWS[wanted].tobytes()


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("f4", "f4"), ("f8", "f8"), ("i1", "i1"), ("u1", "u1"), ("f2", "f4"), (ml_dtypes.bfloat16, "f4"), (">f4", "f4")],
)
def test_rows_are_scored_in_a_dtype_that_holds_them(dtype, wanted: str) -> None:
    rows = (ROWS * 10).astype(dtype)
    assert scorable(rows).dtype == np.dtype(wanted) and np.array_equal(scorable(rows), rows.astype(wanted))


def test_only_rows_that_lie_in_memory_as_they_must_are_viewed() -> None:
    assert memory_view(ArrayColumn("v", ROWS)) is not None
    assert memory_view(ArrayColumn("v", ROWS.astype(np.float16))) is None and memory_view(lazy(ROWS)) is None


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.zeros((3, 2, 2), np.float32), r"shape \(3, 2, 2\)"),
        (np.zeros(3, np.float32), r"shape \(3,\)"),
        (np.zeros((3, 2), np.int32), "int32 whole numbers, such as ids"),
        (np.zeros((3, 2), bool), "bool"),
    ],
)
def test_what_holds_no_vectors_is_refused(rows: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_vectors(ArrayColumn("v", rows))
    check_vectors(ArrayColumn("v", np.zeros((3, 2), np.int8)))


def test_anything_can_be_searched_and_what_was_given_stays_open(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, durable=False)
    pv.write(tmp_path / "b.fbin", ROWS[:3], durable=False)
    collection = Collection.from_arrays({"a": ROWS, "b": ROWS[:2]})
    for base, rows in (
        (ROWS, 50),
        (ROWS[0], 1),
        (ROWS.tolist(), 50),
        (ArrayColumn("v", ROWS), 50),
        (collection, 50),
        (tmp_path / "a.fbin", 50),
        ([str(tmp_path / "a.fbin"), str(tmp_path / "b.fbin")], 53),
    ):
        with opened(base) as (_, column):
            assert column.rows == rows and np.array_equal(column[0], ROWS[0])
    with opened(collection, "b") as (_, column):
        assert column.rows == 2
    with pytest.raises(InputError, match="no column 'c'; there are a, b"):
        pick_column(collection, "c")


def test_of_a_benchmark_the_queries_are_meant() -> None:
    for name in ("test", "Queries"):
        with opened_queries(Collection.from_arrays({"train": ROWS, name: ROWS[:3]})) as (_, column):
            assert column.rows == 3
    with opened_queries(ROWS) as (_, column):
        assert column.rows == 50
