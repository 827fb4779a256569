"""Which column of a table is what: vectors, ids, words or records, by type and name or by polyvec's note."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.exchange import KEY
from polyvec.formats.tabular import roles
from polyvec.formats.tabular.roles import collect
from polyvec.writing.tables import MemoryTable

sys.path.insert(0, str(Path(__file__).parent))
from rowgroups import ROWS, lists, pa, written


def test_two_candidates_are_named_with_the_option_that_chooses(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"title_emb": lists(ROWS), "body_emb": lists(ROWS * 2)})
    with pytest.raises(pv.LossyConversion, match=r"title_emb \(30x4\), body_emb \(30x4\); choose one with --column"):
        pv.convert(path, tmp_path / "x.fbin")
    pv.convert(path, tmp_path / "x.fbin", column="body_emb")
    with pv.open(tmp_path / "x.fbin") as c:
        assert np.array_equal(c.vectors, ROWS * 2)


@pytest.mark.parametrize("group", [4, 100])
def test_ragged_lists_are_one_clear_line(tmp_path: Path, group: int) -> None:
    values = ROWS.tolist()
    values[17] = values[17][:3]
    path = written(tmp_path / "x.parquet", {"emb": pa.array(values, pa.list_(pa.float32()))}, row_group_size=group)
    with pytest.raises(pv.Corrupt, match=r"lists differ in length .*emb, row 17; expected 4 values, found 3 values"):
        pv.open(path)


def test_ragged_lists_beside_vectors_are_records(tmp_path: Path) -> None:
    tokens = pa.array([[1] * (i % 3 + 1) for i in range(30)], pa.list_(pa.int32()))
    path = written(tmp_path / "x.parquet", {"emb": lists(ROWS), "tokens": tokens})
    with pv.open(path) as c:
        assert list(c.columns) == ["emb"] and c.records[2] == {"tokens": [1, 1, 1]}


def test_a_table_without_lists_says_what_it_has(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"a": [1, 2], "b": ["x", "y"]})
    with pytest.raises(pv.Unsupported, match=r"no column holds lists of numbers.*a \(int64\), b \(string\)"):
        pv.open(path)


def test_a_name_that_begins_like_another_is_not_taken_for_it(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.parquet", {"emb.x": lists(ROWS * 3), "emb": lists(ROWS), "id.x": ["n"] * 30, "id": range(30)}
    )
    with pv.open(path) as c:
        assert np.array_equal(c["emb"], ROWS) and np.array_equal(c["emb.x"], ROWS * 3)
        assert c.ids[7] == 7 and c.records[0] == {"id.x": "n"}


def collected(columns: dict[str, Any], note: Any = None, **more: Any) -> pv.Collection:
    table = pa.table(columns)
    if note is not None:
        table = table.replace_schema_metadata({KEY: note if isinstance(note, bytes) else json.dumps(note).encode()})
    return collect(MemoryTable(table), **more)


@pytest.mark.parametrize(
    ("names", "main"), [(("a", "b"), "a"), (("a", "embedding"), "embedding"), (("emb", "vector", "a"), "vector")]
)
def test_the_main_column_is_the_one_called_so_or_the_first(names: tuple[str, ...], main: str) -> None:
    assert collected(dict.fromkeys(names, lists(ROWS))).main == main


@pytest.mark.parametrize(
    ("values", "kept"), [([3, 4], [3, 4]), (["a", "b"], ["a", "b"]), ([0.5, 1.5], None), ([[1.0], [2.0]], None)]
)
def test_ids_are_whole_numbers_or_text(values: list[Any], kept: list[Any] | None) -> None:
    found = collected({"v": lists(ROWS[:2]), "id": values})
    assert (None if found.ids is None else list(found.ids[:])) == kept
    if kept is None:
        assert "id" in found.columns or found.records[0] == {"id": values[0]}, "what is no id is not lost"


def test_a_note_says_what_each_column_is() -> None:
    note = {"columns": {"c0": "mine", "c1": "score"}, "main": "c1", "ids": "key", "vocab": "w", "metadata": {"a": 1}}
    note |= {"records": {"r0": "a field"}}
    columns = {"c0": lists(ROWS[:2]), "c1": [0.5, 1.5], "key": ["x", "y"], "w": ["u", "v"], "r0": [1, 2], "id": [8, 9]}
    found = collected(columns, note)
    assert list(found.columns) == ["mine", "score"] and found.main == "score" and found["score"].shape == (2,)
    assert list(found.ids) == ["x", "y"] and list(found.vocab) == ["u", "v"] and found.metadata == {"a": 1}
    assert found.records[1] == {"a field": 2, "id": 9}, "a column that the note does not name as the ids is a field"


@pytest.mark.parametrize("note", [b"{", b"[]", b'{"texts": 3}'])
def test_a_note_that_is_damaged_is_corrupt(note: bytes) -> None:
    with pytest.raises(pv.Corrupt):
        collected({"v": lists(ROWS)}, note)


def test_two_columns_of_one_name_are_not_guessed_at() -> None:
    twice = pa.table([lists(ROWS), lists(ROWS)], names=["v", "v"])
    with pytest.raises(pv.Unsupported, match="two columns have one name") as caught:
        collect(MemoryTable(twice))
    assert caught.value.field == "v"


def test_rows_of_no_values_are_told() -> None:
    with pytest.raises(pv.Corrupt, match="v, row 0; expected 1 values, found 0 values"):
        collected({"v": pa.array([[], []], pa.list_(pa.float32()))})
    assert collected({"v": pa.array([], pa.list_(pa.float32()))}).vectors.shape == (0, 0)


def test_what_promises_much_in_few_bytes_is_read_before_it_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MemoryTable(pa.table({"v": lists(ROWS)}))
    table.size = 0
    scans: list[int] = []
    scan = MemoryTable.scan
    monkeypatch.setattr(MemoryTable, "scan", lambda self, *a: scans.append(1) or scan(self, *a))
    collect(table)
    believed = len(scans)
    monkeypatch.setattr(roles, "FREE_BYTES", 8)
    collect(table)
    assert len(scans) - believed == believed + 1
