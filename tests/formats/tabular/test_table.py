"""Tables and cursors: forward without starting over, and groups that have the rows they say."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.formats import parquet
from polyvec.formats.tabular.table import wrapped
from polyvec.testing import vectors
from polyvec.writing.tables import MemoryTable

sys.path.insert(0, str(Path(__file__).parent))
from rowgroups import ROWS, lists, pa, written


def test_reading_forward_never_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.parquet", {"emb": lists(ROWS)}, row_group_size=10)
    scans = []
    scan = parquet.ParquetTable.scan
    monkeypatch.setattr(parquet.ParquetTable, "scan", lambda self, *a: scans.append(a) or scan(self, *a))
    with pv.open(path) as c:
        scans.clear()
        for start in range(0, 30, 3):
            assert np.array_equal(c.vectors[start : start + 3], ROWS[start : start + 3])
    assert len(scans) == 3


class Groups(MemoryTable):
    """A table whose groups may lie about their rows."""

    def __init__(self, given: list[list[int]], says: list[int] | None = None) -> None:
        super().__init__(pa.table({"n": pa.chunked_array([pa.array(g, pa.int64()) for g in given])}))
        self.groups = says or self.groups
        self.scans: list[int] = []

    def scan(self, names: Sequence[str], group: int, rows: int) -> Iterator[Any]:
        self.scans.append(group)
        return super().scan(names, group, rows)


def numbers(pieces: Iterable[tuple[int, Any]]) -> list[tuple[int, list[int]]]:
    return [(start, batch.column(0).to_pylist()) for start, batch in pieces]


def test_a_cursor_gives_pieces_with_the_row_each_starts_at() -> None:
    table = Groups([[0, 1, 2], [3], [4, 5, 6, 7]])
    assert table.rows == 8
    assert numbers(table.cursor("n").read(1, 7, 2)) == [(1, [1]), (2, [2]), (3, [3]), (4, [4, 5]), (6, [6])]
    assert numbers(table.cursor("n").read(3, 3, 2)) == []


def test_a_jump_costs_the_start_of_its_group_and_no_more() -> None:
    table = Groups([[0, 1, 2], [3], [4, 5, 6, 7]])
    cursor = table.cursor("n")
    assert numbers(cursor.read(5, 6, 9)) == [(5, [5])] and table.scans == [2]
    assert numbers(cursor.read(6, 8, 9)) == [(6, [6, 7])] and table.scans == [2], "forward: what is left of the batch"
    assert numbers(cursor.read(1, 2, 9)) == [(1, [1])] and table.scans == [2, 0]


@pytest.mark.parametrize(("says", "group", "found"), [([2, 3], 0, 3), ([4, 2], 0, 3), ([3, 3], 1, 2)])
def test_a_group_has_the_rows_it_says(says: list[int], group: int, found: int) -> None:
    table = Groups([[0, 1, 2], [3, 4]], says)
    with pytest.raises(pv.Corrupt, match="a group does not have the rows it says") as caught:
        table.cursor("n").read(0, sum(says), 9)
    assert (caught.value.field, caught.value.expected, caught.value.found) == (f"row group {group}", says[group], found)


def test_whatever_the_library_raises_is_one_line_about_the_file() -> None:
    with (
        pytest.raises(pv.Corrupt, match=r"x\.parquet: the Arrow library cannot read it: a b\b") as caught,
        wrapped("x.parquet"),
    ):
        raise OSError("a\n  b")
    assert "\n" not in str(caught.value) and "a b" in str(caught.value)
    with pytest.raises(pv.Corrupt, match="more memory than there is"), wrapped("x.parquet"):
        raise MemoryError
    with pytest.raises(pv.InputError, match="mine"), wrapped("x.parquet"):
        raise pv.InputError("mine")
    with pytest.raises(KeyboardInterrupt), wrapped("x.parquet"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
def test_a_closed_table_says_that_it_is_closed(tmp_path: Path, suffix: str) -> None:
    records = [{"n": row} for row in range(4)]
    pv.write(tmp_path / f"a{suffix}", vectors(4, 3), records=records, vocab=list("abcd"), sidecar=False)
    for begun in (False, True):
        with pv.open(tmp_path / f"a{suffix}") as collection:
            if begun:
                assert collection.vectors[1].shape == (3,) and collection.records[0] == {"n": 0}
        for read in (
            lambda: collection.vectors[:],
            lambda: collection.vectors[2],
            lambda: list(collection.records),
        ):
            with pytest.raises(pv.InputError, match=rf"a\{suffix} is closed$"):
                read()
