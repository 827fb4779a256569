"""Arrow IPC files and streams, through the suite that every format inherits, and against pyarrow itself."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.arrow import FORMAT
from polyvec.testing import Sample, vectors
from polyvec.testing.apart import ApartSuite

pa = pytest.importorskip("pyarrow")
ROWS = vectors(30, 4)


class TestArrow(ApartSuite):
    format = FORMAT
    library = "pyarrow"
    every = 23

    def samples(self) -> Iterable[Sample]:
        records = [{"text": f"t{i}", "deep": {"a": [i]}} for i in range(5)]
        full = Collection.from_arrays(
            vectors(5, 3), vocab=list("abcdé"), ids=range(5), records=records, metadata={"k": [None]}
        )
        yield Sample("a file with everything", full)
        yield Sample("a stream", full, suffix=".arrows")
        halves = Collection.from_arrays(vectors(6, 3, np.float16))
        yield Sample("compressed", halves, suffix=".feather", options={"compression": "lz4"})
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_what_pyarrow_writes_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.arrow"
    table = pa.table({"id": np.arange(30), "emb": pa.array(ROWS.tolist(), pa.list_(pa.float32())), "t": ["x"] * 30})
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as out, make(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    with pv.open(path) as c:
        assert np.array_equal(c.vectors, ROWS) and np.array_equal(c.vectors[[29, 3, 8]], ROWS[[29, 3, 8]])
        assert np.array_equal(c.vectors[5:9], ROWS[5:9]) and c.records[9] == {"t": "x"} and c.ids[4] == 4


@pytest.mark.parametrize("suffix, read", [("arrow", "open_file"), ("feather", "open_file"), ("arrows", "open_stream")])
def test_pyarrow_reads_what_is_written(tmp_path: Path, suffix: str, read: str) -> None:
    path = tmp_path / f"x.{suffix}"
    pv.write(path, ROWS, ids=range(30))
    with pa.OSFile(str(path)) as raw:
        table = getattr(pa.ipc, read)(raw).read_all()
    assert table["id"].to_pylist() == list(range(30))
    assert np.array_equal(table["vectors"].combine_chunks().flatten().to_numpy().reshape(30, 4), ROWS)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_text_ids_are_ids_however_text_is_laid_out(tmp_path: Path, kind: str) -> None:
    if not hasattr(pa, kind):
        pytest.skip(f"this pyarrow has no {kind}")
    path = tmp_path / "x.arrow"
    table = pa.table({"id": pa.array([f"ü{i}" for i in range(30)], getattr(pa, kind)()), "emb": ROWS.tolist()})
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    with pv.open(path) as c:
        assert list(c.ids) == [f"ü{i}" for i in range(30)] and c.ids[9] == "ü9" and c.records is None


def test_lists_that_lie_about_their_offsets_are_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    table = pa.table({"emb": pa.array(ROWS[:2].tolist(), pa.list_(pa.float32()))})
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    good, bad = (np.array([0, 4, last], np.int32).tobytes() for last in (8, 2**30))
    assert path.read_bytes().count(good) == 1
    path.write_bytes(path.read_bytes().replace(good, bad))
    with pytest.raises(pv.FormatError):
        pv.open(path).vectors.to_numpy()


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pv.write(tmp_path / "x.arrow", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(pv.MissingExtra, match=r"pip install 'polyvec\[arrow\]'"):
        pv.open(tmp_path / "x.arrow")


def test_records_of_views_of_text_are_taken_by_row(tmp_path: Path) -> None:
    """As polars writes them; Arrow has no way to take single ones of such an array."""
    pl = pytest.importorskip("polars")
    texts = [f"a text of more than twelve bytes, {row}" for row in range(6)]
    frame = pl.DataFrame({"embedding": pl.Series(vectors(6, 4)), "text": texts, "bytes": [b"x"] * 6})
    frame.write_ipc(tmp_path / "a.arrow")
    with pv.open(tmp_path / "a.arrow") as found:
        assert list(found.take([4, 1]).records) == [{"text": texts[row], "bytes": "78"} for row in (4, 1)]
