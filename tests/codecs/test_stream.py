"""Rows into a sink on several threads: the bytes of one thread."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest

from polyvec.codecs import AffineUint8, BFloat16, Float16, Raw, SymmetricInt8
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Codec
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import InputError
from polyvec.core.format import WriteOptions
from polyvec.core.targets import open_sink
from polyvec.core.views import ConcatColumn, RangeColumn, TakeColumn
from polyvec.kernels.threads import default_threads, spread

ROWS = np.random.default_rng(0).standard_normal((1003, 17), dtype=np.float32)


def column_of(kind: str) -> Column:
    plain = ArrayColumn("vectors", ROWS)
    if kind == "range":
        return RangeColumn(plain, 5, 990)
    if kind == "take":
        return TakeColumn(plain, np.arange(1002, -1, -3))
    if kind == "concat":
        return ConcatColumn("vectors", [plain, RangeColumn(plain, 0, 100)])
    return plain


@pytest.mark.parametrize("kind", ["plain", "range", "take", "concat"])
@pytest.mark.parametrize("codec", [Raw(np.dtype("<f4")), Float16(), BFloat16(), AffineUint8(-4.0, 0.04)], ids=str)
@pytest.mark.parametrize("place", [None, 11])
def test_threads_write_what_one_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, codec: Codec, place: int | None
) -> None:
    monkeypatch.setenv("POLYVEC_THREADS", "3")
    column, told = column_of(kind), []
    width = codec.row_bytes((17,)) or 0
    for limit in (1 << 40, 1):
        monkeypatch.setattr("polyvec.codecs.stream.PARALLEL_BYTES", limit)
        monkeypatch.setattr("polyvec.codecs.stream.PIECE_BYTES", 1000)
        told.clear()
        with open_sink(tmp_path / f"{limit}", durable=False) as sink:
            sink.write(b"head")
            at = None if place is None else sink.reserve(place + column.rows * width) + place
            write_rows(sink, column, codec, WriteOptions(progress=lambda done, of: told.append((done, of))), at=at)
            sink.write(b"tail")
    assert (tmp_path / "1").read_bytes() == (tmp_path / f"{1 << 40}").read_bytes()
    assert len((tmp_path / "1").read_bytes()) == 8 + (place or 0) + column.rows * width
    assert told[-1] == (column.rows, column.rows)
    assert told == sorted(told)
    assert len(told) > 1


def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyvec.codecs.stream.PARALLEL_BYTES", 1)
    monkeypatch.setattr("polyvec.codecs.stream.PIECE_BYTES", 1000)
    monkeypatch.setenv("POLYVEC_THREADS", "2")
    rows = ROWS.copy()
    rows[700, 3] = 1e6
    with pytest.raises(InputError, match="does not fit float16"), open_sink(tmp_path / "out", durable=False) as sink:
        write_rows(sink, ArrayColumn("vectors", rows), Float16(), WriteOptions())
    assert list(tmp_path.iterdir()) == []


def test_a_hash_follows_the_bytes_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyvec.codecs.stream.PARALLEL_BYTES", 1)
    monkeypatch.setattr("polyvec.codecs.stream._write_spread", None)  # out of order the hash would start over
    with open_sink(tmp_path / "out", durable=False, sha256=True) as sink:
        assert sink.hashing
        write_rows(sink, ArrayColumn("vectors", ROWS), Raw(np.dtype("<f4")), WriteOptions())
    assert sink.hexdigest() == hashlib.sha256(ROWS.tobytes()).hexdigest()


def test_rows_of_nothing_take_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyvec.codecs.stream.PARALLEL_BYTES", 1)
    with open_sink(tmp_path / "out", durable=False) as sink:
        write_rows(sink, ArrayColumn("vectors", np.zeros((5000, 0), np.float32)), Raw(np.dtype("<f4")), WriteOptions())
    assert (tmp_path / "out").stat().st_size == 0


@pytest.mark.parametrize("limit", [1, 1 << 40])
def test_errors_name_the_row_of_the_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr("polyvec.codecs.stream.PARALLEL_BYTES", limit)
    monkeypatch.setattr("polyvec.codecs.stream.PIECE_BYTES", 1000)
    rows = ROWS.copy()
    rows[700, 3] = 1e6
    with (
        pytest.raises(InputError, match=r"1e\+06 in row 700, column 3 does not"),
        open_sink(tmp_path / "a", durable=False) as sink,
    ):
        write_rows(sink, ArrayColumn("vectors", rows), Float16(), WriteOptions(chunk_rows=64))
    rows[700, 3] = np.nan
    with pytest.raises(InputError, match="nan in row 700, column 3"), open_sink(tmp_path / "a", durable=False) as sink:
        write_rows(sink, ArrayColumn("vectors", rows), SymmetricInt8(), WriteOptions(chunk_rows=64))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_drops_the_tasks_that_have_not_begun(threads: int) -> None:
    begun: list[int] = []

    def work(task: int) -> int:
        begun.append(task)
        if task == 4:
            raise ValueError("no")
        time.sleep(0.001)
        return default_threads()

    told: list[int] = []
    assert spread(work, [1, 2, 3], threads, each=told.append) == told
    assert told == ([1, 1, 1] if threads > 1 else [default_threads()] * 3)
    begun.clear()
    told.clear()
    with pytest.raises(ValueError, match="no"):
        spread(work, range(1000), threads, each=told.append)
    assert len(begun) < 100
    assert told == [told[0]] * 4
    assert spread(work, [], threads) == []
