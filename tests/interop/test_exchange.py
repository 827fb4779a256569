"""Columns and collections in the hands of NumPy, torch, pyarrow, polars and DuckDB."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.columns import ArrayColumn
from polyvec.testing import vectors

ROWS = vectors(20, 6)
RECORDS = [{"text": f"t{i}", "n": i, "deep": {"a": [i]}} for i in range(20)]


@pytest.fixture
def fbin(tmp_path: Path) -> Path:
    pv.write(tmp_path / "x.fbin", ROWS)
    return tmp_path / "x.fbin"


@pytest.fixture
def full() -> pv.Collection:
    return pv.Collection.from_arrays(ROWS, vocab=[f"w{i}" for i in range(20)], ids=range(100, 120), records=RECORDS)


class TestNumpy:
    def test_asarray_of_a_column(self, fbin: Path) -> None:
        with pv.open(fbin) as c:
            assert np.array_equal(np.asarray(c.vectors), ROWS)
            assert np.asarray(c.vectors, dtype=np.float64).dtype == np.float64

    def test_from_dlpack_gives_rows_of_its_own(self, fbin: Path) -> None:
        with pv.open(fbin) as c:
            assert np.array_equal(np.from_dlpack(c.vectors), ROWS)

    def test_a_zero_copy_tensor_says_that_it_is_read_only(self, fbin: Path) -> None:
        with pv.open(fbin) as c:
            taken = np.from_dlpack(c.vectors, copy=False)
        assert not taken.flags.writeable and np.array_equal(taken, ROWS)  # and outlives the collection

    def test_read_only_memory_is_refused_to_those_who_know_no_versions(self, fbin: Path) -> None:
        with pv.open(fbin) as c:
            with pytest.raises(BufferError, match=r"DLPack 1\.0"):
                c.vectors.__dlpack__(copy=False)
            assert "dltensor_versioned" in repr(c.vectors.__dlpack__(max_version=(1, 0)))
            assert "dltensor_versioned" not in repr(c.vectors.__dlpack__())

    def test_another_device_is_refused(self, fbin: Path) -> None:
        with pv.open(fbin) as c:
            assert c.vectors.__dlpack_device__() == (1, 0)
            with pytest.raises(BufferError, match="memory"):
                c.vectors.__dlpack__(dl_device=(2, 0))

    def test_rows_that_are_encoded_have_no_bytes_to_share(self, tmp_path: Path) -> None:
        rows = ArrayColumn("v", ROWS.astype(np.float16), codec=_float16())
        with pytest.raises(BufferError, match="float16"):
            rows.__dlpack__(max_version=(1, 0), copy=False)
        assert np.array_equal(np.from_dlpack(rows), ROWS.astype(np.float16).astype(np.float32))


def _float16() -> pv.Codec:
    from polyvec.codecs import Float16

    return Float16()


class TestTorch:
    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        self.torch = pytest.importorskip("torch")

    def test_from_dlpack(self, fbin: Path) -> None:
        with pv.open(fbin) as c:
            tensor = self.torch.from_dlpack(c.vectors)
            assert np.array_equal(tensor.numpy(), ROWS)
            tensor[0] = 7  # rows of its own: writing is fine
            assert np.array_equal(c.vectors, ROWS)

    def test_writing_to_a_zero_copy_tensor_neither_crashes_nor_reaches_the_file(self, fbin: Path) -> None:
        before = fbin.read_bytes()
        with pv.open(fbin) as c:
            tensor = self.torch.from_dlpack(c.vectors, copy=False)
            assert np.array_equal(tensor.numpy(), ROWS)
            tensor[0] = 7
            assert np.array_equal(c.vectors, ROWS)
        assert fbin.read_bytes() == before

    @pytest.mark.parametrize("dtype", ["float16", "int32", "uint8", "int8", "float64"])
    def test_every_dtype_arrives(self, dtype: str) -> None:
        column = ArrayColumn("v", vectors(4, 3, np.dtype(dtype)))
        assert str(self.torch.from_dlpack(column).dtype) == f"torch.{dtype}"

    def test_bfloat16_arrives_as_bfloat16(self) -> None:
        rows = ROWS.astype(ml_dtypes.bfloat16)
        tensor = self.torch.from_dlpack(ArrayColumn("v", rows))
        assert tensor.dtype == self.torch.bfloat16
        assert np.array_equal(tensor.float().numpy(), rows.astype(np.float32))


class TestArrow:
    @pytest.fixture(autouse=True)
    def _pyarrow(self) -> None:
        pytest.importorskip("pyarrow")

    def test_a_table_has_vectors_ids_words_and_records(self, full: pv.Collection) -> None:
        import pyarrow as pa

        table = pa.table(full)
        assert table.column_names == ["id", "word", "vectors", "text", "n", "deep"]
        assert table.schema.field("vectors").type == pa.list_(pa.field("element", pa.float32(), nullable=False), 6)
        assert table["id"].to_pylist() == list(range(100, 120)) and table["word"].to_pylist()[3] == "w3"
        flat = table["vectors"].combine_chunks().flatten().to_numpy()
        assert np.array_equal(flat.reshape(20, 6), ROWS)
        assert table["deep"].to_pylist()[2] == '{"a": [2]}'

    def test_names_that_meet_are_kept_apart(self) -> None:
        import pyarrow as pa

        c = pv.Collection.from_arrays({"id": ROWS}, ids=range(20), records=[{"id": "x"}] * 20)
        assert pa.table(c).column_names == ["id_", "id", "id__"]

    def test_columns_of_other_lengths_are_left_out(self) -> None:
        import pyarrow as pa

        assert pa.table(pv.Collection.from_arrays({"a": ROWS, "b": ROWS[:3]})).column_names == ["a"]

    def test_batches_are_read_as_they_are_asked_for(self, full: pv.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
        import pyarrow as pa

        from polyvec.core import exchange

        monkeypatch.setattr(exchange, "BATCH_BYTES", 7 * 24)
        reader = pa.RecordBatchReader.from_stream(full)
        assert [batch.num_rows for batch in reader] == [7, 7, 6]

    def test_without_pyarrow_the_extra_is_named(self, full: pv.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(pv.MissingExtra, match=r"pip install 'polyvec\[arrow\]'"):
            full.__arrow_c_stream__()

    def test_polars_reads_a_collection(self, full: pv.Collection, fbin: Path) -> None:
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame(full)
        found = pl.from_arrow(full)  # a series of structs in newer polars, a frame in older
        assert frame.equals(found.struct.unnest() if isinstance(found, pl.Series) else found)
        assert frame["n"].sum() == 190 and np.array_equal(frame["vectors"].to_numpy(), ROWS)
        with pv.open(fbin) as c:
            assert np.array_equal(pl.DataFrame(c)["vectors"].to_numpy(), ROWS)

    def test_duckdb_reads_a_collection(self, full: pv.Collection) -> None:
        words = full  # noqa: F841  DuckDB finds it by its name
        duckdb = pytest.importorskip("duckdb")
        rows = duckdb.sql("select id, word, vectors[2] from words where n >= 18 order by n").fetchall()
        assert rows == [(118, "w18", float(ROWS[18, 1])), (119, "w19", float(ROWS[19, 1]))]
