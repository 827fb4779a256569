"""Columns of tables: lists of every kind as rows, and the row that is none told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.formats.tabular.columns import TableColumn, TableStrings, rows_of
from polyvec.testing import vectors
from polyvec.writing.tables import MemoryTable

sys.path.insert(0, str(Path(__file__).parent))
from rowgroups import ROWS, lists, pa, written


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed"])
@pytest.mark.parametrize("value", ["float16", "float32", "float64", "int32", "uint8"])
def test_every_kind_of_list_is_read(tmp_path: Path, kind: str, value: str) -> None:
    rows = vectors(30, 4, np.dtype(value))
    inner = pa.from_numpy_dtype(rows.dtype)
    outer = {"list": pa.list_(inner), "large_list": pa.large_list(inner), "fixed": pa.list_(inner, 4)}[kind]
    array = pa.array([list(row) for row in rows], outer)
    path = written(tmp_path / "x.parquet", {"emb": array}, row_group_size=7)
    with pv.open(path) as c:
        assert c.vectors.dtype == rows.dtype and c.vectors.shape == (30, 4)
        assert np.array_equal(c.vectors, rows) and np.array_equal(c.vectors[[29, 0, 8]], rows[[29, 0, 8]])
        assert np.array_equal(c.vectors[5:9], rows[5:9])


def test_ragged_lists_that_even_out_are_found_when_they_are_read(tmp_path: Path) -> None:
    values = ROWS.tolist()
    values[17], values[18] = values[17][:3], [*values[18], 1.0]
    path = written(tmp_path / "x.parquet", {"emb": pa.array(values, pa.list_(pa.float32()))})
    with pv.open(path) as c, pytest.raises(pv.Corrupt, match="row 17"):
        c.vectors.to_numpy()
    assert not pv.verify(path).ok


@pytest.mark.parametrize("where", ["list", "value"])
def test_nulls_are_one_clear_line(tmp_path: Path, where: str) -> None:
    values = ROWS.tolist()
    if where == "list":
        values[5] = None
    else:
        values[5][2] = None
    path = written(tmp_path / "x.parquet", {"emb": pa.array(values, pa.list_(pa.float32()))})
    with pytest.raises(pv.Corrupt, match=r"(null where a number|values the file counts).*emb"):
        pv.open(path).vectors.to_numpy()


def column_of(array: Any, *shape: int) -> TableColumn:
    return TableColumn(MemoryTable(pa.table({"v": array})), "v", shape, np.dtype(np.float32))


def test_rows_are_taken_in_the_order_asked_for_across_groups() -> None:
    rows = vectors(10, 2)
    column = column_of(pa.chunked_array([lists(rows[:3]), lists(rows[3:4]), lists(rows[4:])]), 2)
    wanted = np.array([9, 0, 3, 3, 4, 2])
    assert np.array_equal(column.take(wanted), rows[wanted])
    assert [block.start for block in column.blocks(4)] == [0, 3, 4, 8], "a block ends with its group"
    assert np.array_equal(np.concatenate([block.decode() for block in column.blocks(4)]), rows)


def test_lists_of_lists_are_rows_of_their_shape() -> None:
    deep = pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.float32())))
    found = rows_of(deep, (2, 2), np.dtype(np.float32), "x", "v", 0)
    assert found.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]


@pytest.mark.parametrize(
    ("values", "shape", "row", "words"),
    [
        ([[1.0, 2.0], [3.0], [4.0, 5.0]], (2,), 101, "expected 2 values, found 1 values"),
        ([[1.0, 2.0], None, [4.0, 5.0]], (2,), 101, "expected a number, found null"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0, None]], (2,), 102, "expected a number, found null"),
    ],
)
def test_a_row_that_is_none_is_told_by_its_number_in_the_file(
    values: list[Any], shape: tuple[int, ...], row: int, words: str
) -> None:
    with pytest.raises(pv.Corrupt, match=words) as caught:
        rows_of(pa.array(values, pa.list_(pa.float32())), shape, np.dtype(np.float32), "x.parquet", "v", 100)
    assert caught.value.field == f"v, row {row}"


def test_strings_are_read_when_the_first_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[int] = []
    scan = MemoryTable.scan
    monkeypatch.setattr(MemoryTable, "scan", lambda self, *a: scans.append(1) or scan(self, *a))
    given = pa.chunked_array([["a", "é"], [""], pa.array(["b", "c", "dd"])[1:]])
    table = MemoryTable(pa.table({"w": given}))
    words = TableStrings(table, "w")
    assert len(words) == 5 and not scans
    assert list(words) == ["a", "é", "", "c", "dd"] and list(words)[1] == "é"
    assert len(scans) == 3, "each group once, however often they are asked for"
    holes = TableStrings(MemoryTable(pa.table({"w": ["a", None]})), "w")
    with pytest.raises(pv.Corrupt) as caught:
        list(holes)
    assert caught.value.field == "w, row 1"
