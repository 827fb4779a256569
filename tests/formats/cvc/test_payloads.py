"""Payloads: codes that pass as they are, rows by several threads, and one checksum over all of it."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec import cvc
from polyvec.codecs import AffineUint8, BFloat16, BytePlanes, Float16, Raw, SymmetricInt8
from polyvec.core.blocks import Codec
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Corrupt
from polyvec.core.sinks import Sink
from polyvec.core.targets import open_sink
from polyvec.formats.cvc import payloads
from polyvec.formats.cvc.header import read_header
from polyvec.formats.cvc.payloads import as_float32, write_planes, write_stretches
from polyvec.formats.cvc.writer import ChunkWriter
from polyvec.testing import vectors


def test_symmetric_codes_pass_by_a_shift_of_127(tmp_path: Path) -> None:
    codes = np.arange(-127, 128, dtype=np.int8).reshape(-1, 5)
    column = ArrayColumn("vectors", codes, codec=SymmetricInt8(127.0), encoding="int8")
    pv.write(tmp_path / "a.cvc", Collection({"vectors": column}))
    header = read_header(pv.open_source(tmp_path / "a.cvc"))
    stored = pv.open_source(tmp_path / "a.cvc").read_at(header.chunks[0].payload, 255)
    assert np.array_equal(np.frombuffer(stored, np.uint8), codes.reshape(-1).astype(np.int16) + 127)
    with pv.open(tmp_path / "a.cvc") as collection:
        assert np.abs(collection.vectors.to_numpy() - codes / np.float32(127)).max() < 1e-7
    low = ArrayColumn("vectors", np.full((2, 2), -128, np.int8), codec=SymmetricInt8(127.0), encoding="int8")
    pv.write(tmp_path / "b.cvc", Collection({"vectors": low}))
    with pv.open(tmp_path / "b.cvc") as collection:
        assert collection.vectors.encoding == "lossless", "what the shift cannot hold is kept another way"
        assert np.array_equal(collection.vectors.to_numpy(), np.full((2, 2), -128 / np.float32(127), np.float32))


def test_f16bin_payloads_pass_through(tmp_path: Path) -> None:
    half = vectors(50, 8).astype(np.float16)
    pv.write(tmp_path / "a.f16bin", half)
    assert pv.convert(tmp_path / "a.f16bin", tmp_path / "b.cvc").codec.endswith("-> float16")
    chunk = read_header(pv.open_source(tmp_path / "b.cvc")).chunks[0]
    assert pv.open_source(tmp_path / "b.cvc").read_at(chunk.payload, chunk.size) == half.tobytes()


def test_i8bin_payloads_pass_by_the_shift_and_come_back(tmp_path: Path) -> None:
    rows = vectors(20, 8)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pv.write(tmp_path / "a.i8bin", rows, format="i8bin", encoding="int8")
    with pv.open(tmp_path / "a.i8bin", format="i8bin") as source:
        before = source.vectors.to_numpy()
    pv.convert(tmp_path / "a.i8bin", tmp_path / "b.cvc", source_format="i8bin")
    with pv.open(tmp_path / "b.cvc") as found:
        assert found.vectors.encoding == "int8"
        assert np.abs(found.vectors.to_numpy() - before).max() < 1e-7


@pytest.mark.parametrize("encoding", ["float16", "raw", "lossless"])
def test_converting_checks_what_it_reads(tmp_path: Path, encoding: str) -> None:
    rows = np.random.default_rng(3).standard_normal((9000, 256), dtype=np.float32)  # more than threads take at a time
    cvc.pack_cvc(rows, tmp_path / "a.cvc", compression="int8", durable=False)
    data = bytearray((tmp_path / "a.cvc").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "b.cvc").write_bytes(data)
    for target in ("c.cvc", "c.npy") if encoding != "lossless" else ("c.cvc",):
        with pytest.raises(Corrupt, match="fail their checksum"):
            pv.convert(tmp_path / "b.cvc", tmp_path / target, encoding=encoding, durable=False)
        assert not (tmp_path / target).exists()


def chunk_writer(sink: Sink) -> ChunkWriter:
    return ChunkWriter(sink, {}, layout="versioned", version=(1, 0), mapped=False, chunks=None)


def made(
    path: Path, rows: np.ndarray, codec: Codec, *, some: range | None = None, first: int = 0
) -> tuple[bytes, int, list[int]]:
    """Rows through `write_stretches` into a file: their bytes there, the checksum, and what progress was told."""
    told: list[int] = []
    with open_sink(path, durable=False) as sink, chunk_writer(sink) as writer:
        placed = writer.begin({"rows": len(rows)})
        part = writer.part()
        column = ArrayColumn("v", rows)
        write_stretches(writer, column, some or range(len(rows)), codec, first, told.append)
        start = placed.offset + 8
    return path.read_bytes()[start:], part.crc, told


@pytest.mark.parametrize("codec", [Raw(np.dtype("<f4")), Float16(), BFloat16(), AffineUint8(-4.0, 0.04)], ids=str)
def test_stretches_of_several_threads_are_one_payload_with_one_checksum(
    tmp_path: Path, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = vectors(300, 8)
    whole = np.ascontiguousarray(codec.encode(rows)["codes"]).tobytes()
    for size in (1 << 20, 32 * 5):  # at once, and five rows at a time
        monkeypatch.setattr(payloads, "PIECE_BYTES", size)
        data, crc, told = made(tmp_path / "a", rows, codec)
        assert data == whole and crc == zlib.crc32(whole) and sum(told) == 300
    assert len(told) == 15, "four pieces a stretch"


def test_some_rows_of_a_column_are_written_from_their_own_start(tmp_path: Path) -> None:
    rows = vectors(20, 3)
    data, crc, _ = made(tmp_path / "a", rows, Raw(np.dtype("<f4")), some=range(7, 12))
    assert data == rows[7:12].tobytes() and crc == zlib.crc32(data)


@pytest.mark.parametrize("codec", [Float16(), BFloat16()], ids=str)
def test_a_value_that_overflows_is_told_by_its_row_in_the_file(
    tmp_path: Path, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "PIECE_BYTES", 16)  # two rows at a time
    rows = vectors(9, 2)
    rows[5, 1] = np.finfo(np.float32).max
    with pytest.raises(pv.InputError, match=r"row 105\b"):
        made(tmp_path / "a", rows, codec, first=100)
    assert not list(tmp_path.iterdir())


def test_whole_numbers_become_floats_only_where_none_is_rounded() -> None:
    assert as_float32(np.array([[2**24]])).dtype == np.float32
    assert as_float32(np.array([[0.1]])).tolist() == [[float(np.float32(0.1))]], "floats may round"
    with pytest.raises(pv.InputError):
        as_float32(np.array([[2**24 + 1]]))


@pytest.mark.parametrize("count", [1, 7, 300])
def test_planes_of_several_threads_are_the_codecs_own(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = vectors(count, 5)
    wanted = np.ascontiguousarray(BytePlanes((5,)).encode(rows)["codes"]).tobytes()
    monkeypatch.setattr(payloads, "PIECE_BYTES", 512)
    told: list[int] = []
    with open_sink(tmp_path / "a", durable=False) as sink, chunk_writer(sink) as writer:
        start = writer.begin({"rows": count}).offset + 8
        part = writer.part()
        write_planes(writer, rows, told.append)
    data = (tmp_path / "a").read_bytes()[start:]
    assert data == wanted and part.crc == zlib.crc32(data) and told == [count]
