"""Tables in memory: which columns are vectors, ids and records, whatever library they come from."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.writing import tables

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

ROWS = vectors(9, 4)
TITLES = [f"title {i}" for i in range(9)]


def back(path: Path) -> pv.Collection:
    return pv.open(path)


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

    monkeypatch.setattr(tables, "_from_pandas", lambda value: made)
    pv.write(tmp_path / "a.fbin", frame())
    with back(tmp_path / "a.fbin") as found:
        assert list(found.ids) == TITLES and found.records[1] == {"title": "title 1", "year": 1}


@pytest.mark.parametrize(("start", "step", "kept"), [(0, 1, None), (10, 1, True), (0, 2, True)])
def test_the_range_that_some_rows_of_a_pandas_frame_keep_is_an_index_of_its_own(
    monkeypatch, start: int, step: int, kept: bool | None
) -> None:
    table = types.SimpleNamespace(from_pandas=lambda value, preserve_index: preserve_index)
    monkeypatch.setattr(tables, "arrow", lambda: types.SimpleNamespace(Table=table))
    frame = types.SimpleNamespace(index=types.SimpleNamespace(start=start, step=step))
    assert tables._from_pandas(frame) is kept


def test_an_index_without_a_name_is_ids_or_nothing(tmp_path: Path, monkeypatch) -> None:
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


@pytest.mark.parametrize("value", [ROWS, pv.Collection.from_arrays(ROWS), ROWS.tolist(), {"a": ROWS}, "a.fbin", None])
def test_what_has_its_own_way_in_is_no_table(value: Any) -> None:
    assert not tables.is_table(value)


@pytest.mark.parametrize("kind", list(FRAMES))
def test_whatever_gives_arrow_data_is_a_table(kind: str) -> None:
    assert tables.is_table(FRAMES[kind]())


def test_a_table_in_memory_is_read_in_its_batches() -> None:
    made = tables.MemoryTable(FRAMES["chunks"]())
    assert made.groups == [5, 4] and made.rows == 9 and made.values("embedding") == 36
    assert [batch.num_rows for batch in made.scan(["year"], 0, 2)] == [2, 2, 1]
    assert [batch.column(0).to_pylist() for batch in made.scan(["year"], 1, 9)] == [[5, 6, 7, 8]]


@pytest.mark.parametrize("kind", ["arrow", "stream"])
def test_lists_that_even_out_are_counted_by_their_values(kind: str) -> None:
    ragged = pa.table({"v": [[1.0, 2.0], [1.0], [3.0, 4.0, 5.0], [6.0, 7.0], [8.0]]})
    given = ragged if kind == "arrow" else pa.RecordBatchReader.from_batches(ragged.schema, ragged.to_batches())
    with pytest.raises(pv.InputError, match=r"v, row 1; expected 2 values, found 1 values"):
        tables.open_frame(given)


def test_an_error_of_a_table_is_one_of_the_argument() -> None:
    with pytest.raises(pv.InputError, match="the table: no column holds lists of numbers"):
        tables.open_frame(pa.table({"a": ["x"]}))


def test_records_of_a_table_have_all_its_columns() -> None:
    found = tables.frame_records(arrow_table())
    assert found.fields == ["id", "title", "embedding", "year"] and found[3]["title"] == "title 3"


def test_whole_numbers_alone_are_no_vectors() -> None:
    with pytest.raises(pv.InputError, match="no column holds lists of numbers"):
        tables.open_frame(pa.table({"id": [1, 2], "count": [3, 4]}))
    found = tables.open_frame(pa.table({"id": [1, 2], "x": [3.5, 4.5], "count": [3, 4]}))
    assert found.vectors[:].tolist() == [[3.5, 3.0], [4.5, 4.0]] and found.ids[:].tolist() == [1, 2]


def test_a_lazy_frame_is_told_to_collect(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match=r"LazyFrame.*frame\.collect\(\)"):
        pv.write(tmp_path / "a.fbin", FRAMES["polars"]().lazy())
