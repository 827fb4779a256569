"""Parquet, through the suite that every format inherits, and against pyarrow itself."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats import parquet
from polyvec.formats.tabular.table import Cursor
from polyvec.testing import Sample, vectors
from polyvec.testing.apart import ApartSuite

sys.path.insert(0, str(Path(__file__).parent / "tabular"))
from rowgroups import ROWS, lists, pa, pq, written


def full_collection(rows: int = 7) -> Collection:
    records = [
        {"text": f"t{i}", "n": i, "x": i / 3, "flag": i % 2 == 0, "none": None, "deep": {"a": [i]}} for i in range(rows)
    ]
    del records[2]["text"]
    records[3]["text"] = None
    records[4]["n"] = "four"
    return Collection.from_arrays(
        vectors(rows, 3),
        vocab=[f"wörd {i}\n" for i in range(rows)],
        ids=[10**12 + i for i in range(rows)],
        records=records,
        metadata={"model": "m", "nested": [1, None, {"a": 2.5}]},
    )


class TestParquet(ApartSuite):
    format = parquet.FORMAT
    library = "pyarrow"
    every = 23

    def samples(self) -> Iterable[Sample]:
        yield Sample("floats", Collection.from_arrays(vectors(9, 3)))
        yield Sample("with everything", full_collection())
        many = {
            "b": vectors(5, 2, np.int64),
            "a": vectors(5, 3, np.float64),
            "one": vectors(5, 1, np.int32)[:, 0],
            "deep": vectors(5, 6).reshape(5, 2, 3),
            "bits": vectors(5, 2, np.int8) > 0,
        }
        yield Sample("many columns", Collection.from_arrays(many))
        words = Collection.from_arrays(vectors(4, 2, np.float16), ids=["a", "b", "", "ü"])
        yield Sample("halves, ids that are words", words, suffix=".pq", options={"compression": "zstd"})
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        yield Sample("several groups", Collection.from_arrays(vectors(11, 2)), options={"group_rows": 4})


def test_vectordbbench_files_are_read(tmp_path: Path) -> None:
    train = written(tmp_path / "train.parquet", {"id": np.arange(30), "emb": lists(ROWS)})
    truth = written(
        tmp_path / "neighbors.parquet", {"id": np.arange(2), "neighbors_id": lists(np.eye(2, 5, dtype=int), pa.int64())}
    )
    with pv.open(train) as c:
        assert c.main == "emb" and c.ids is not None and c.ids[3] == 3 and c.records is None
    with pv.open(truth) as c:
        assert c.main == "neighbors_id" and c.vectors.shape == (2, 5) and c.vectors.dtype == np.int64


def test_vectordbbench_files_are_written(tmp_path: Path) -> None:
    pv.write(tmp_path / "b.fbin", ROWS)
    pv.convert(tmp_path / "b.fbin", tmp_path / "train.parquet", layout="vectordbbench")
    pv.write(tmp_path / "n.parquet", np.eye(3, 5, dtype=np.int32), layout="vectordbbench")
    table = pq.read_table(tmp_path / "train.parquet")
    assert table.column_names == ["id", "emb"] and pa.types.is_list(table.schema.field("emb").type)
    assert table["id"].to_pylist() == list(range(30)) and np.array_equal(np.array(table["emb"].to_pylist(), "f4"), ROWS)
    assert pq.read_table(tmp_path / "n.parquet").schema.field("neighbors_id").type.value_type == pa.int64()
    pv.convert(tmp_path / "train.parquet", tmp_path / "again.fbin", sidecar=False)
    assert (tmp_path / "again.fbin").read_bytes() == (tmp_path / "b.fbin").read_bytes()


def test_columns_of_other_lengths_do_not_fit_a_table(tmp_path: Path) -> None:
    with pytest.raises(pv.LossyConversion, match="b differ from a"):
        pv.write(tmp_path / "x.parquet", {"a": ROWS, "b": ROWS[:3]})
    assert not (tmp_path / "x.parquet").exists()


def test_groups_bound_the_memory_and_statistics_are_left_to_other_columns(tmp_path: Path) -> None:
    pv.write(tmp_path / "x.parquet", ROWS, ids=range(30), group_rows=8)
    about = pq.read_metadata(tmp_path / "x.parquet")
    assert [about.row_group(i).num_rows for i in range(about.num_row_groups)] == [8, 8, 8, 6]
    assert about.row_group(0).column(0).is_stats_set and not about.row_group(0).column(1).is_stats_set


@pytest.mark.parametrize(
    "option", [{"compression": "zip"}, {"layout": "mine"}, {"group_rows": 0}, {"encoding": "int8"}]
)
def test_bad_options_are_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(pv.InputError):
        pv.write(tmp_path / "x.parquet", ROWS, **option)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pv.write(tmp_path / "x.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(pv.MissingExtra, match=r"Parquet files need pyarrow.*pip install 'polyvec\[arrow\]'"):
        pv.open(tmp_path / "x.parquet")
    with pytest.raises(pv.MissingExtra):
        pv.write(tmp_path / "y.parquet", ROWS)


def test_a_giant_row_group_is_read_in_bounded_memory(tmp_path: Path) -> None:
    rows = vectors(10_000, 1024)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 1024)
    path = written(tmp_path / "x.parquet", {"emb": flat}, compression="none", use_dictionary=False)
    del flat
    before, most = pa.total_allocated_bytes(), 0
    with pv.open(path) as c:
        for block in c.vectors.blocks(256):
            assert np.array_equal(block.decode(), rows[block.start : block.start + block.rows])
            most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < rows.nbytes // 2


def test_threads_load_the_words_once_and_in_turn_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"w{row}" for row in range(len(ROWS))]
    pv.write(tmp_path / "a.parquet", ROWS, vocab=words, records=[{"n": row} for row in range(len(ROWS))])
    walked: list[tuple[list[str], bool]] = []
    walk = Cursor.walk

    def watched(self: Cursor, *asked: int) -> Any:
        for found in walk(self, *asked):
            walked.append((self._names, self._table.lock.locked()))
            yield found

    gate = threading.Barrier(8)

    def read(number: int) -> None:
        gate.wait()
        assert list(collection.vocab or ()) == words
        assert (collection.vectors[number:] == ROWS[number:]).all()
        assert collection.records is not None and collection.records[number] == {"n": number}

    with pv.open(tmp_path / "a.parquet") as collection, ThreadPoolExecutor(8) as pool:
        monkeypatch.setattr(Cursor, "walk", watched)
        list(pool.map(read, range(8)))
    assert sum(names == ["word"] for names, _ in walked) == 1 and all(locked for _, locked in walked)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), min_size=1, max_size=6),
    st.sampled_from(["parquet", "arrow"]),
)
def test_any_records_come_back_as_they_were(records: list[dict[str, Any]], suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{suffix}"
        pv.write(path, vectors(len(records), 2), records=records, vocab=[f"{r}" for r in records], durable=False)
        with pv.open(path) as c:
            assert [dict(r) for r in c.records] == records and list(c.vocab) == [f"{r}" for r in records]
