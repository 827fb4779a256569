"""Rows of tables as records: plain values, fields that a record lacks, and rows in any order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.formats.tabular.records import TableRecords, picked
from polyvec.writing.tables import MemoryTable

sys.path.insert(0, str(Path(__file__).parent))
from rowgroups import ROWS, lists, pa, written


def test_other_columns_become_records(tmp_path: Path) -> None:
    import datetime
    import decimal

    path = written(
        tmp_path / "x.parquet",
        {
            "id": [f"doc{i}" for i in range(30)],
            "v": lists(ROWS),
            "title": ["a", None] * 15,
            "n": np.arange(30),
            "when": [datetime.datetime(2024, 1, 2, 3)] * 30,
            "price": [decimal.Decimal("1.50")] * 30,
            "tags": [["x"], []] * 15,
            "raw": [b"\x01\xff"] * 30,
        },
    )
    with pv.open(path) as c:
        assert list(c.ids)[:2] == ["doc0", "doc1"] and list(c.columns) == ["v"]
        assert c.records[1] == {
            "title": None,
            "n": 1,
            "when": "2024-01-02T03:00:00",
            "price": "1.50",
            "tags": [],
            "raw": "01ff",
        }
        assert [r["n"] for r in c.records[27:]] == [27, 28, 29]
    receipt = pv.convert(path, tmp_path / "x.fbin")
    assert set(receipt.sidecars) == {"x.fbin.ids.txt", "x.fbin.records.jsonl"}
    pv.convert(tmp_path / "x.fbin", tmp_path / "y.parquet")
    with pv.open(path) as one, pv.open(tmp_path / "y.parquet") as two:
        assert list(one.ids) == list(two.ids) and list(one.records) == list(two.records)


def test_a_value_that_json_cannot_hold_is_one_clear_line(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"emb": lists(ROWS), "score": [float("nan")] * 30})
    with pytest.raises(pv.InputError, match=r"cannot be kept beside the output as JSON.*--no-sidecar"):
        pv.convert(path, tmp_path / "x.fbin")
    assert not (tmp_path / "x.fbin").exists()
    pv.convert(path, tmp_path / "y.parquet")
    with pv.open(tmp_path / "y.parquet") as c:
        assert np.isnan(c.records[0]["score"])


def records_of(columns: dict[str, Any], **more: Any) -> TableRecords:
    table = MemoryTable(pa.table(columns))
    return TableRecords(table, more.pop("names", {name: name for name in columns}), **more)


def test_records_come_by_their_keys_and_in_any_order() -> None:
    found = records_of({"a": pa.chunked_array([[1, 2], [3], [4, 5]]), "b": list("vwxyz")}, names={"b": "letter"})
    assert found.fields == ["letter"] and len(found) == 5 and found[1] == {"letter": "w"}
    assert found.take(np.array([4, 0, 4, 2])) == [{"letter": letter} for letter in "zvzx"]
    assert [record["letter"] for record in found] == list("vwxyz")


def test_records_without_fields_are_as_many_as_rows() -> None:
    found = records_of({"a": [1, 2, 3]}, names={})
    assert list(found) == [{}, {}, {}] and found.take(np.array([2, 0])) == [{}, {}]


def test_json_text_is_parsed_and_null_is_a_field_that_is_not_there() -> None:
    found = records_of({"a": ['{"x": [1]}', None, "null"], "b": [None, 2, 3]}, texts=["a"])
    assert list(found) == [{"a": {"x": [1]}, "b": None}, {"b": 2}, {"a": None, "b": 3}]
    assert found.take(np.array([1])) == [{"b": 2}]


def test_json_that_is_damaged_is_told_by_its_row() -> None:
    damaged = records_of({"a": ["0", "1", "2", "{"]}, texts=["a"])
    for read in (lambda: list(damaged), lambda: damaged.take(np.array([1, 3]))):
        with pytest.raises(pv.Corrupt) as caught:
            read()
        assert caught.value.field == "a, row 3"
    assert damaged.take(np.array([2, 0])) == [{"a": 2}, {"a": 0}], "the others are read"


def test_values_that_arrow_cannot_take_are_taken_one_by_one() -> None:
    class Views:
        def take(self, places: Any) -> Any:
            raise pa.ArrowNotImplementedError

        def __getitem__(self, place: int) -> Any:
            return pa.scalar(f"v{place}")

    assert picked(Views(), np.array([2, 0])) == ["v2", "v0"]
    assert picked(pa.array(list("abc")), np.array([2, 0])) == ["c", "a"]
