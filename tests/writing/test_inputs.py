"""What `write` takes: collections with parts replaced, DataFrames, Arrow tables and streams, ids of any library."""

from __future__ import annotations

import datetime
import decimal
import sys
import types
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


def table(**more) -> dict:
    return {
        "id": [f"d{i}" for i in range(9)],
        "title": TITLES,
        "embedding": ROWS.tolist(),
        "year": list(range(9)),
        **more,
    }


def arrow_table() -> pa.Table:
    made = pa.table(table())
    return made.set_column(2, "embedding", made["embedding"].cast(pa.list_(pa.float32())))


FRAMES = {
    "arrow": arrow_table,
    "polars": lambda: pl.DataFrame(table(), schema_overrides={"embedding": pl.List(pl.Float32)}),
    "polars arrays": lambda: pl.DataFrame(table(), schema_overrides={"embedding": pl.Array(pl.Float32, 4)}),
    "batch": lambda: arrow_table().to_batches()[0],
    "stream": lambda: pa.RecordBatchReader.from_batches(
        arrow_table().schema, arrow_table().to_batches(max_chunksize=4)
    ),
    "chunks": lambda: pa.concat_tables([arrow_table().slice(0, 5), arrow_table().slice(5)]),
    "categories": lambda: arrow_table().set_column(1, "title", pa.array(TITLES).dictionary_encode()),
    "polars categories": lambda: FRAMES["polars"]().with_columns(pl.col("title").cast(pl.Categorical)),
    "polars enums": lambda: FRAMES["polars"]().with_columns(pl.col("title").cast(pl.Enum(TITLES))),
}


@pytest.mark.parametrize("kind", list(FRAMES))
@pytest.mark.parametrize("suffix", [".fbin", ".cvc", ".parquet"])
def test_tables_are_vectors_ids_and_records(tmp_path: Path, kind: str, suffix: str) -> None:
    receipt = pv.write(tmp_path / f"a{suffix}", FRAMES[kind]())
    assert receipt.rows == 9 and receipt.dim == 4 and receipt.loss is not None and receipt.loss.exact
    with back(tmp_path / f"a{suffix}") as found:
        assert np.array_equal(found.vectors[:], ROWS) and found.vectors.dtype == np.float32
        assert list(found.ids) == [f"d{i}" for i in range(9)]
        assert [dict(r) for r in found.records] == [{"title": TITLES[i], "year": i} for i in range(9)]


def test_the_column_of_vectors_is_chosen_where_there_are_several(tmp_path: Path) -> None:
    two = pl.DataFrame(table(other=(ROWS * 2).tolist()), schema_overrides={"other": pl.List(pl.Float32)})
    with pytest.raises(pv.LossyConversion, match=r"embedding \(9x4\), other \(9x4\)"):
        pv.write(tmp_path / "a.fbin", two)
    receipt = pv.write(tmp_path / "a.fbin", two, column="other")
    assert receipt.dropped == ("embedding",)
    with back(tmp_path / "a.fbin") as found:
        assert np.array_equal(found.vectors[:], ROWS * 2)


def test_ids_are_the_column_named_or_one_that_is_unique(tmp_path: Path) -> None:
    frame = pl.DataFrame(table(), schema_overrides={"embedding": pl.List(pl.Float32)})
    pv.write(tmp_path / "a.fbin", frame, ids="year")
    with back(tmp_path / "a.fbin") as found:
        assert found.ids[:].tolist() == list(range(9)) and found.records[2] == {"id": "d2", "title": "title 2"}
    twice = frame.with_columns(id=pl.lit("same"))
    pv.write(tmp_path / "b.fbin", twice)
    with back(tmp_path / "b.fbin") as found:
        assert found.ids is None and found.records[2] == {"id": "same", "title": "title 2", "year": 2}
    holes = frame.with_columns(id=pl.when(pl.col("year") > 3).then(pl.col("id")))
    pv.write(tmp_path / "c.fbin", holes)
    with back(tmp_path / "c.fbin") as found:
        assert found.ids is None and found.records[2]["id"] is None
    with pytest.raises(pv.InputError, match="no column 'none' for the ids; there are id, title"):
        pv.write(tmp_path / "d.fbin", frame, ids="none")
    with pytest.raises(pv.InputError, match="ids are integers or strings"):
        pv.write(tmp_path / "d.fbin", frame, ids="embedding")


def test_a_table_of_numbers_is_a_matrix(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    pv.write(tmp_path / "a.fbin", frame)
    pv.write(tmp_path / "b.fbin", frame.with_columns(id=pl.Series(TITLES)))
    for name in "ab":
        with back(tmp_path / f"{name}.fbin") as found:
            assert np.array_equal(found.vectors[:], ROWS) and found.records is None
            assert (found.ids is None) == (name == "a")
    with pytest.raises(pv.InputError, match="no column holds lists of numbers"):
        pv.write(tmp_path / "c.fbin", pl.DataFrame({"title": TITLES}))
    with pytest.raises(pv.InputError, match="has no number in row 3"):
        pv.write(tmp_path / "c.fbin", pl.DataFrame({"x": [1.0, 2.0, 3.0, None]}))


def test_bad_lists_are_named_by_their_row(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match="row 1"):
        pv.write(tmp_path / "a.fbin", pa.table({"v": [[1.0, 2.0], [1.0], [3.0, 4.0]]}))
    with pytest.raises(pv.InputError, match="null"):
        pv.write(tmp_path / "a.fbin", pa.table({"v": [[1.0, 2.0], None]}))


def test_one_column_of_lists_is_vectors(tmp_path: Path) -> None:
    for name, column in (("a", pl.Series(ROWS)), ("b", arrow_table()["embedding"])):
        pv.write(tmp_path / f"{name}.fbin", column)
        with back(tmp_path / f"{name}.fbin") as found:
            assert np.array_equal(found.vectors[:], ROWS)


def test_records_are_a_table_too(tmp_path: Path) -> None:
    for name, records in (("a", pl.DataFrame({"t": TITLES})), ("b", pa.table({"t": TITLES})), ("c", {"t": TITLES})):
        pv.write(tmp_path / f"{name}.fbin", ROWS, records=records)
        with back(tmp_path / f"{name}.fbin") as found:
            assert found.records[4] == {"t": "title 4"}


def test_our_own_stream_comes_back_whole(tmp_path: Path) -> None:
    given = pv.Collection.from_arrays(ROWS, vocab=TITLES, ids=np.arange(9), metadata={"a": 1})
    pv.write(tmp_path / "a.fbin", pa.table(given))
    with back(tmp_path / "a.fbin") as found:
        assert list(found.vocab) == TITLES and found.ids[:].tolist() == list(range(9)) and found.metadata == {"a": 1}


def test_streams_leave_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pv.write(tmp_path / "a.fbin", FRAMES["stream"]())
    assert not list((tmp_path / "temporary").iterdir())
    with pytest.raises(pv.InputError):
        pv.write(tmp_path / "b.fbin", FRAMES["stream"](), ids="none")
    assert not list((tmp_path / "temporary").iterdir())


def test_a_pandas_frame_is_known_by_its_module(tmp_path: Path, monkeypatch) -> None:
    """Without pandas: a class of its module, handed to Arrow as pandas does, index and all."""
    module = types.ModuleType("pandas")
    frame = type("DataFrame", (), {"__module__": "pandas.core.frame", "columns": ["embedding"]})
    monkeypatch.setitem(sys.modules, "pandas", module)
    made = arrow_table().drop_columns(["id"]).append_column("key", pa.array(TITLES))
    made = made.replace_schema_metadata({b"pandas": b'{"index_columns": ["key"]}'})

    from polyvec.writing import tables

    monkeypatch.setattr(tables, "_from_pandas", lambda value: made)
    pv.write(tmp_path / "a.fbin", frame())
    with back(tmp_path / "a.fbin") as found:
        assert list(found.ids) == TITLES and found.records[1] == {"title": "title 1", "year": 1}


@pytest.mark.parametrize(("start", "step", "kept"), [(0, 1, None), (10, 1, True), (0, 2, True)])
def test_the_range_that_some_rows_of_a_pandas_frame_keep_is_an_index_of_its_own(
    monkeypatch, start: int, step: int, kept: bool | None
) -> None:
    from polyvec.writing import tables

    table = types.SimpleNamespace(from_pandas=lambda value, preserve_index: preserve_index)
    monkeypatch.setattr(tables, "arrow", lambda: types.SimpleNamespace(Table=table))
    frame = types.SimpleNamespace(index=types.SimpleNamespace(start=start, step=step))
    assert tables._from_pandas(frame) is kept


def test_an_index_without_a_name_is_ids_or_nothing(tmp_path: Path, monkeypatch) -> None:
    from polyvec.writing import tables

    frame = type("DataFrame", (), {"__module__": "pandas.core.frame", "columns": ["embedding"]})
    made = arrow_table().append_column("__index_level_0__", pa.array(range(0, 18, 2)))
    made = made.replace_schema_metadata({b"pandas": b'{"index_columns": ["__index_level_0__"]}'})
    for name, given, ids in (("a", made, "d1"), ("b", made.drop_columns(["id"]), 2)):
        monkeypatch.setattr(tables, "_from_pandas", lambda value, given=given: given)
        pv.write(tmp_path / f"{name}.fbin", frame())
        with back(tmp_path / f"{name}.fbin") as found:
            assert found.ids[1] == ids and found.records[1] == {"title": "title 1", "year": 1}


def test_some_rows_of_a_real_pandas_frame_keep_their_numbers_as_ids(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"embedding": list(ROWS), "year": range(9)})
    for name, chosen in (("a", frame[::2]), ("b", frame[frame.year % 2 == 0]), ("c", frame.iloc[[0, 2, 4, 6, 8]])):
        pv.write(tmp_path / f"{name}.fbin", chosen)
        with back(tmp_path / f"{name}.fbin") as found:
            assert found.ids[:].tolist() == [0, 2, 4, 6, 8] and found.records[1] == {"year": 2}


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


def test_a_lazy_frame_is_told_to_collect(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match=r"LazyFrame.*frame\.collect\(\)"):
        pv.write(tmp_path / "a.fbin", FRAMES["polars"]().lazy())


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
