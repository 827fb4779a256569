"""Chunks: where the header puts them, as large as their rows, and refused by field and byte where not."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.codecs import AffineUint8, BFloat16, Float16, Raw
from polyvec.core.blocks import Codec
from polyvec.core.layout import Record
from polyvec.formats.cvc.chunks import ChunkReader, end_of
from polyvec.formats.cvc.fields import Fields
from polyvec.formats.cvc.header import read_header
from polyvec.formats.cvc.structure import DOCUMENT_CHUNK, VERSIONED_CHUNK, Chunk, ColumnSpec
from polyvec.testing import MemorySource, vectors


def test_trailing_bytes_are_a_warning_and_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "a.cvc"
    pv.write(path, vectors(5, 3), encoding="float16")
    path.write_bytes(path.read_bytes() + b"xyz")
    with pytest.warns(pv.FormatWarning, match="3 extra bytes"), pv.open(path) as collection:
        assert collection.rows == 5
    report = pv.verify(path)
    assert report.ok and "3 extra bytes" in report.findings[0].message


def test_mixed_compression_is_read_and_kept(tmp_path: Path) -> None:
    half, codes = np.ones((2, 3), "<f2"), np.arange(6, dtype=np.uint8).reshape(2, 3)
    raw = vectors(1, 3)
    header = {
        "num_vectors": 5,
        "dimension": 3,
        "compression": "fp16",
        "unknown": {"deep": [1]},
        "chunks": [
            {"rows": 2},
            {"rows": 2, "compression": "int8", "min": -1, "scale": 0.5},
            {"rows": 1, "compression": "none"},
        ],
    }
    text = json.dumps(header).encode()
    chunks = b"".join(struct.pack("<I", a.nbytes) + a.tobytes() for a in (half, codes, raw))
    (tmp_path / "a.cvc").write_bytes(b"CVCF" + struct.pack("<I", len(text)) + text + chunks)
    expected = np.concatenate([half, codes * np.float32(0.5) - 1, raw]).astype(np.float32)
    with pv.open(tmp_path / "a.cvc") as collection:
        assert collection.vectors.encoding == "mixed" and np.array_equal(collection.vectors.to_numpy(), expected)
        assert collection.metadata == {"unknown": {"deep": [1]}}
    pv.convert(tmp_path / "a.cvc", tmp_path / "b.cvc")
    kept = read_header(pv.open_source(tmp_path / "b.cvc"))
    assert [chunk.entry["compression"] for chunk in kept.chunks] == ["fp16", "int8", "none"]
    assert kept.json["unknown"] == {"deep": [1]}
    with pv.open(tmp_path / "b.cvc") as collection:
        assert np.array_equal(collection.vectors.to_numpy(), expected)


FLOATS = ColumnSpec("v", (2,), np.dtype("<f4"), "none")
COUNTS = ColumnSpec("n", (), np.dtype("<i4"), "none")
FIRST = 20  # where the header ends


def chunk(payload: bytes, crc: int | None = None) -> bytes:
    return struct.pack("<I", len(payload)) + (b"" if crc is None else struct.pack("<I", crc)) + payload


def read(
    entries: list[dict[str, Any]], data: bytes, *columns: ColumnSpec, words: Record = DOCUMENT_CHUNK, **more: Any
) -> list[Chunk]:
    source = MemorySource(bytes(FIRST) + data, "x.cvc")
    given = {"columnar": len(columns) > 1, "compression": "none", **more}
    return list(ChunkReader(source, Fields(8), words, columns or (FLOATS,), **given).read(entries, FIRST))


def test_chunks_follow_each_other_or_lie_where_they_say() -> None:
    rows = [chunk(bytes(8 * count)) for count in (2, 1)]
    one, two = read([{"rows": 2}, {"rows": 1}], rows[0] + rows[1])
    assert (one.offset, one.payload, one.size, one.start) == (20, 24, 16, 0)
    assert (two.offset, two.payload, two.size, two.start) == (40, 44, 8, 2)
    away, back = read([{"rows": 1, "file_offset": 40}, {"rows": 2, "file_offset": 20}], rows[0] + rows[1])
    assert (away.payload, away.start, back.payload, back.start) == (44, 0, 24, 1)
    assert end_of([away, back], FIRST, Fields(8)) == 52
    assert end_of([], FIRST, Fields(8)) == FIRST


@pytest.mark.parametrize(
    ("entry", "data", "kind", "field", "offset"),
    [
        ({"rows": 1}, b"\1\0", pv.Truncated, "chunks[0].length", 20),
        ({"rows": 1}, struct.pack("<I", 9) + bytes(8), pv.Truncated, "chunks[0].length", 20),
        ({"rows": 2}, chunk(bytes(8)), pv.Corrupt, "chunks[0].length", 20),
        ({"rows": 1, "file_offset": 19}, chunk(bytes(8)), pv.Corrupt, "chunks[0].file_offset", 8),
        ({"rows": 1, "compression": "zip"}, chunk(bytes(8)), pv.Unsupported, "chunks[0].compression", 8),
        ({"rows": 1, "compression": "int8", "min": 0}, chunk(bytes(2)), pv.Corrupt, "chunks[0].scale", 8),
        ({"rows": -1}, chunk(bytes(8)), pv.Corrupt, "chunks[0].rows", 8),
    ],
)
def test_a_chunk_that_lies_is_told_with_its_field_and_byte(
    entry: dict[str, Any], data: bytes, kind: type[pv.FormatError], field: str, offset: int
) -> None:
    with pytest.raises(kind) as caught:
        read([entry], data)
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_a_lossless_chunk_has_half_a_byte_a_value_at_least() -> None:
    entry = {"rows": 3, "compression": "lossless"}
    odd = ColumnSpec("v", (1,), np.dtype("<f4"), "lossless")
    assert read([entry], chunk(bytes(2)), odd)[0].pieces["vectors"].size == 2
    with pytest.raises(pv.Corrupt, match="expected at least 2 bytes, found 1"):
        read([entry], chunk(bytes(1)), odd)


def test_the_checksum_before_a_payload_and_that_of_the_header_are_one() -> None:
    data = chunk(bytes(8), 7)
    for entry in ({"rows": 1}, {"rows": 1, "crc32": 7}):
        assert read([entry], data, words=VERSIONED_CHUNK)[0].crc == 7
    assert read([{"rows": 1, "crc32": 9}], chunk(bytes(8)))[0].crc == 9
    assert read([{"rows": 1}], chunk(bytes(8)))[0].crc is None
    with pytest.raises(pv.Corrupt, match=r"two checksums.*expected 7 \(before its payload\), found 8"):
        read([{"rows": 1, "crc32": 8}], data, words=VERSIONED_CHUNK)


def placed(**changes: Any) -> dict[str, Any]:
    """Two rows of floats, then two of counts."""
    places = {"v": {"offset": 0, "size": 16}, "n": {"offset": 16, "size": 8}} | changes
    return {"rows": 2, "columns": places}


def test_the_columns_of_a_chunk_lie_inside_its_payload() -> None:
    [found] = read([placed()], chunk(bytes(24)), FLOATS, COUNTS)
    assert {name: (p.offset, p.size, p.rows) for name, p in found.pieces.items()} == {"v": (24, 16, 2), "n": (40, 8, 2)}


@pytest.mark.parametrize(
    ("entry", "field", "words"),
    [
        (placed(n={"offset": 15, "size": 8}), "chunks[0].columns.n.offset", "columns 'v' and 'n' overlap"),
        (placed(n={"offset": 25, "size": 8}), "chunks[0].columns.n.offset", "at most 24"),
        (placed(n={"offset": 17, "size": 8}), "chunks[0].columns.n.size", "at most 7"),
        (placed(n={"offset": 16, "size": 4}), "chunks[0].columns.n.size", "expected 8 bytes, found 4"),
        (placed(n=None), "chunks[0].columns.n", "found nothing"),
        ({"rows": 2, "columns": []}, "chunks[0].columns", "does not place its columns"),
    ],
)
def test_a_column_out_of_its_place_is_told(entry: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(pv.Corrupt, match=words) as caught:
        read([entry], chunk(bytes(24)), FLOATS, COUNTS)
    assert caught.value.field == field


def test_chunks_that_overlap_are_told_wherever_they_stand_in_the_header() -> None:
    data = chunk(bytes(16))
    chunks = read([{"rows": 2, "file_offset": 20}, {"rows": 2, "file_offset": 20}], data)
    with pytest.raises(pv.Corrupt, match="two chunks overlap") as caught:
        end_of(chunks, FIRST, Fields(8))
    assert (caught.value.field, caught.value.expected, caught.value.found) == (
        "chunks[1].file_offset",
        "at least 40",
        20,
    )


@pytest.mark.parametrize(
    ("compression", "dtype", "codec", "size"),
    [
        ("none", "<i8", Raw(np.dtype("<i8")), 16),
        ("fp16", "<f4", Float16(), 4),
        ("fp16", "<f2", Raw(np.dtype("<f2")), 4),
        ("bfloat16", "<f4", BFloat16(), 4),
        ("int8", "<f4", AffineUint8(-1.0, 0.5), 2),
    ],
)
def test_every_compression_is_read_by_its_codec(compression: str, dtype: str, codec: Codec, size: int) -> None:
    spec = ColumnSpec("v", (2,), np.dtype(dtype), compression)
    [found] = read([{"rows": 1, "min": -1, "scale": 0.5}], chunk(bytes(size)), spec, compression=compression)
    assert found.pieces["vectors"].codec == codec
