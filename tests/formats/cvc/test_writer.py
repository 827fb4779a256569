"""The writer of CVC files: a header that fits its place and its numbers, checksums of every part, whole or nothing."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.core.targets import open_sink
from polyvec.formats.cvc import writer as module
from polyvec.formats.cvc.header import read_header
from polyvec.formats.cvc.writer import ChunkWriter, shift
from polyvec.testing import MemorySource

HEADER = {"dimension": 2, "compression": "none"}
CHUNKS = [bytes(range(16)), bytes(range(100, 108))]


def written(
    path: Path, *, layout: str = "document", mapped: bool = False, header: Any = HEADER, known: bool = True
) -> bytes:
    with open_sink(path, durable=False) as sink:
        entries = [{"rows": len(data) // 8} for data in CHUNKS]
        how = {"layout": layout, "version": (1, 0), "mapped": mapped, "chunks": entries if known else None}
        with ChunkWriter(sink, header, **how) as writer:
            for entry, data in zip(entries, CHUNKS):
                writer.begin(entry)
                writer.part()
                writer.write(data[:5])
                writer.write(data[5:])
    return path.read_bytes()


@pytest.mark.parametrize("layout", ["document", "versioned"])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_chunks_lie_where_the_header_says_with_their_sums(
    tmp_path: Path, layout: str, mapped: bool, known: bool
) -> None:
    data = written(tmp_path / "a.cvc", layout=layout, mapped=mapped, known=known)
    header = read_header(MemorySource(data, "a.cvc"))
    assert header.layout == layout and header.rows == 3 and header.end == len(data)
    for chunk, wanted in zip(header.chunks, CHUNKS):
        assert data[chunk.payload : chunk.payload + chunk.size] == wanted and chunk.crc == zlib.crc32(wanted)
        assert chunk.offset % 4096 == 0 or not mapped
    assert header.chunks[0].payload % 64 == 0 or mapped


def test_a_header_length_never_looks_like_a_version(tmp_path: Path) -> None:
    for size in range(65480, 65600, 7):
        data = written(tmp_path / "a.cvc", header={**HEADER, "note": "x" * size})
        [length] = struct.unpack_from("<I", data, 4)
        assert not (1 <= length & 0xFFFF <= 10 and length >> 16 <= 100)
        assert json.loads(data[8 : 8 + length])["note"] == "x" * size


def test_a_header_that_outgrows_its_place_moves_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNKNOWN_RESERVE", 64)
    data = written(tmp_path / "a.cvc", known=False, header={**HEADER, "note": "x" * 500})
    header = read_header(MemorySource(data, "a.cvc"))
    assert [data[c.payload : c.payload + c.size] for c in header.chunks] == CHUNKS


def test_a_chunk_that_is_too_long_and_metadata_that_json_has_not_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="metadata that JSON cannot hold"):
        written(tmp_path / "a.cvc", header={**HEADER, "x": float("nan")})
    monkeypatch.setattr(module, "MAX_CHUNK_BYTES", 10)
    with pytest.raises(InputError, match="choose fewer rows a chunk"):
        written(tmp_path / "a.cvc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("piece", [3, 7, 1 << 20])
def test_bytes_are_moved_from_the_end_backwards(tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COPY_PIECE", piece)
    with open_sink(tmp_path / "a", durable=False) as sink:
        sink.write(b"headABCDEFGHIJ")
        shift(sink, 4, 5)
    data = (tmp_path / "a").read_bytes()
    assert data[:4] == b"head" and data[9:] == b"ABCDEFGHIJ"


def test_the_padding_passes_over_lengths_that_look_like_versions(tmp_path: Path) -> None:
    with pv.open_sink(tmp_path / "a.cvc", durable=False) as sink:
        made = ChunkWriter(sink, {}, layout="document", version=(1, 0), mapped=False, chunks=[])
        for size in (1, 10, 65536, 65537 + 3, 3 * 65536 + 5):
            room = made._pad(size)
            assert room >= size and (8 + room + 4) % 64 == 0
            assert not (1 <= room & 0xFFFF <= 10 and room >> 16 <= 100)
