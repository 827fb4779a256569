"""What `write` takes: collections with parts replaced, DataFrames, Arrow tables and streams, ids of any library."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

ROWS = vectors(9, 4)
TITLES = [f"title {i}" for i in range(9)]


def back(path: Path) -> pv.Collection:
    return pv.open(path)


def test_what_is_given_takes_the_place_of_the_collections_own(tmp_path: Path) -> None:
    old = pv.Collection.from_arrays(
        ROWS,
        vocab=[f"w{i}" for i in range(9)],
        ids=np.arange(9),
        metadata={"a": 1},
        records=[{"i": i} for i in range(9)],
    )
    words = [f"new {i}" for i in range(9)]
    pv.write(
        tmp_path / "a.fbin",
        old,
        vocab=words,
        ids=np.arange(9) * 2,
        metadata={"b": 2},
        records=[{"j": i} for i in range(9)],
    )
    with back(tmp_path / "a.fbin") as found:
        assert list(found.vocab) == words and found.ids[:].tolist() == list(range(0, 18, 2))
        assert found.metadata == {"b": 2} and found.records[3] == {"j": 3}
    assert old.vocab[0] == "w0" and old.metadata == {"a": 1}, "the collection itself is not changed"
    pv.write(tmp_path / "b.fbin", old, ids=[f"x{i}" for i in range(9)])
    with back(tmp_path / "b.fbin") as found:
        assert found.vocab[0] == "w0" and found.ids[2] == "x2" and found.records[1] == {"i": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ids": [1, 2]}, "there are 2 ids for 9 rows"),
        ({"vocab": ["a"]}, "1 words for 9 rows"),
        ({"records": [{}]}, "1 records for 9 rows"),
        ({"records": [1] * 9}, "a record is one mapping a row, not int"),
        ({"ids": [1.5] * 9}, "ids must be integers or strings"),
        ({"ids": [1, "a"] * 4 + [2]}, "all of one kind"),
        ({"ids": [True] * 9}, "ids must be integers or strings"),
        ({"ids": [2**70] * 9}, "beyond"),
        ({"ids": np.full(9, 2**64 - 1, np.uint64)}, "beyond"),
        ({"ids": np.zeros((9, 1), np.int64)}, "one a row"),
        ({"ids": "name"}, "one value a row"),
    ],
)
def test_lengths_and_kinds_are_checked_whatever_is_written(tmp_path: Path, given, words: str) -> None:
    for data in (ROWS, pv.Collection.from_arrays(ROWS)):
        with pytest.raises(pv.InputError, match=words):
            pv.write(tmp_path / "a.fbin", data, **given)
    assert not list(tmp_path.iterdir())


def test_a_collection_put_together_by_hand_is_checked_too(tmp_path: Path) -> None:
    collection = pv.Collection.from_arrays(ROWS)
    collection.ids = pv.Collection.from_arrays(vectors(2, 2), ids=[1, 2]).ids
    with pytest.raises(pv.InputError, match="2 ids for 9 rows"):
        pv.write(tmp_path / "a.fbin", collection)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(TITLES),
        pa.chunked_array([TITLES[:4], TITLES[4:]]),
        pl.Series("t", TITLES),
        np.array(TITLES),
        np.array(TITLES, object),
        tuple(TITLES),
        (t for t in TITLES),
        pa.array(TITLES).dictionary_encode(),
    ],
    ids=["pyarrow", "chunked", "polars", "numpy", "objects", "tuple", "generator", "dictionary"],
)
def test_ids_of_every_library_are_ids(tmp_path: Path, ids) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, ids=ids)
    with back(tmp_path / "a.fbin") as found:
        assert list(found.ids) == TITLES


@pytest.mark.parametrize("ids", [pa.array(range(9)), pl.Series(range(9)), range(9), pa.chunked_array([range(9)])])
def test_whole_numbers_of_every_library_are_ids(tmp_path: Path, ids) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, ids=ids)
    with back(tmp_path / "a.fbin") as found:
        assert found.ids[:].tolist() == list(range(9))


def test_records_are_a_table_too(tmp_path: Path) -> None:
    for name, records in (("a", pl.DataFrame({"t": TITLES})), ("b", pa.table({"t": TITLES})), ("c", {"t": TITLES})):
        pv.write(tmp_path / f"{name}.fbin", ROWS, records=records)
        with back(tmp_path / f"{name}.fbin") as found:
            assert found.records[4] == {"t": "title 4"}


@pytest.mark.parametrize("suffix", [".fbin", ".h5", ".cvc", ".parquet", ".arrow", ".safetensors"])
def test_records_and_metadata_of_numpy_and_of_times_are_kept_as_json_has_them(tmp_path: Path, suffix: str) -> None:
    when = datetime.datetime(2024, 2, 29, 12, 30)
    record = {
        "a": np.float32(1.5),
        "b": np.int64(3),
        "c": when,
        "d": when.date(),
        "e": decimal.Decimal("1.10"),
        "f": np.datetime64("2024-02-29T12:30:00.000000001"),
        "g": np.arange(2),
        "h": np.True_,
    }
    plain = {
        "a": 1.5,
        "b": 3,
        "c": "2024-02-29T12:30:00",
        "d": "2024-02-29",
        "e": "1.10",
        "f": "2024-02-29T12:30:00.000000001",
        "g": [0, 1],
        "h": True,
    }
    pv.write(tmp_path / f"a{suffix}", ROWS, records=[record] * 9, metadata={"made": when, "size": np.int64(9)})
    with back(tmp_path / f"a{suffix}") as found:
        assert found.records[4] == plain
        assert found.metadata["made"] == "2024-02-29T12:30:00" and found.metadata["size"] == 9
    with pytest.raises(pv.InputError, match=r"JSON|cannot be written"):
        pv.write(tmp_path / f"b{suffix}", ROWS, records=[{"a": object()}] * 9)


@pytest.mark.parametrize("one", [np.arange(16, dtype=np.float32), [0.5] * 16], ids=["array", "list"])
@pytest.mark.parametrize("suffix", ["cvc", "fbin", "npy"])
def test_one_vector_does_not_become_rows_of_one_value(tmp_path: Path, one: Any, suffix: str) -> None:
    target = tmp_path / f"y.{suffix}"
    with pytest.raises(pv.InputError, match=r"found 16 numbers in one dimension; one vector: array\[None\]"):
        pv.write(target, one)
    assert not target.exists()
    pv.write(target, [one])
    with pv.open(target) as found:
        assert found.vectors.shape == (1, 16)


def test_named_columns_of_single_values_and_whole_numbers_are_written(tmp_path: Path) -> None:
    pv.write(tmp_path / "y.cvc", {"vectors": np.eye(3, dtype=np.float32), "score": np.arange(3, dtype=np.float32)})
    pv.write(tmp_path / "ids.npy", np.arange(3))
    with pv.open(tmp_path / "y.cvc") as found, pv.open(tmp_path / "ids.npy") as ids:
        assert found["score"].shape == (3,) and ids.rows == 3
