"""CVC headers: found in both layouts, and wrong in any field named with its path."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.formats.cvc.header import find_layout, read_header
from polyvec.testing import MemorySource

HEADER = {"num_vectors": 3, "dimension": 2, "compression": "none", "chunks": [{"rows": 2}, {"rows": 1}]}
COLUMNS = [
    {"name": "a", "dimension": 2, "dtype": "float32", "compression": "none"},
    {"name": "b", "dimension": 1, "dtype": "int64", "compression": "none"},
]
PLACES = {"a": {"offset": 0, "size": 8}, "b": {"offset": 8, "size": 8}}
COLUMNAR = {"num_vectors": 1, "format_type": "columnar", "columns": COLUMNS, "chunks": [{"rows": 1, "columns": PLACES}]}


def packed(header: Any, sizes: tuple[int, ...] = (16, 8), version: tuple[int, int] | None = None) -> MemorySource:
    text = json.dumps(header).encode()
    head = b"CVCF" + (struct.pack("<HH", *version) if version else b"") + struct.pack("<I", len(text)) + text
    words = b"\0" * 4 if version else b""
    return MemorySource(head + b"".join(struct.pack("<I", size) + words + bytes(size) for size in sizes), "a.cvc")


def changed(**fields: Any) -> dict[str, Any]:
    return {**HEADER, **fields}


@pytest.mark.parametrize("version", [None, (1, 0), (2, 3)])
def test_both_layouts_say_the_same(version: tuple[int, int] | None) -> None:
    header = read_header(packed(HEADER, version=version))
    assert (header.rows, header.columnar, header.notes) == (3, False, ())
    assert header.layout == ("versioned" if version else "document") and header.version == (version or (0, 1))
    assert [(c.start, c.rows, c.size) for c in header.chunks] == [(0, 2, 16), (2, 1, 8)]
    assert find_layout(packed(HEADER, version=version))[0] == header.layout


def test_columns_of_a_chunk_lie_where_it_says() -> None:
    header = read_header(packed(COLUMNAR, (16,)))
    assert [spec.name for spec in header.columns] == ["a", "b"] and header.columns[1].row_shape == ()
    [chunk] = header.chunks
    assert chunk.pieces["b"].offset == chunk.payload + 8 and header.columns[1].dtype == np.dtype("<i8")


@pytest.mark.parametrize(
    ("header", "kind", "field"),
    [
        (changed(num_vectors=4), Corrupt, "num_vectors"),
        (changed(num_vectors=-1), Corrupt, "num_vectors"),
        (changed(dimension=0), Corrupt, "dimension"),
        (changed(compression="zip"), Unsupported, "compression"),
        (changed(compression="int8"), Corrupt, "chunks[0].min"),
        (changed(format_type="tree"), Unsupported, "format_type"),
        (changed(chunks={}), Corrupt, "chunks"),
        (changed(chunks=[{"rows": 3}, {"rows": 0}]), Corrupt, "chunks[0].length"),
        (changed(chunks=[{"rows": 2, "file_offset": 5}, {"rows": 1}]), Corrupt, "chunks[0].file_offset"),
        (changed(sections=[{"start_index": 2, "end_index": 1}]), Corrupt, "sections[0].start_index"),
        (changed(sections=[{"start_index": 0, "end_index": 9}]), Corrupt, "sections[0].end_index"),
        (changed(sections=[{"start_index": 0, "end_index": 1, "metadata": 3}]), Corrupt, "sections[0].metadata"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(header: Any, kind: type[FormatError], field: str) -> None:
    with pytest.raises(kind) as caught:
        read_header(packed(header))
    assert caught.value.field == field and caught.value.path == "a.cvc"
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"columns": []}, "columns"),
        ({"columns": [COLUMNS[0], COLUMNS[0]]}, "columns[1].name"),
        ({"columns": [{**COLUMNS[0], "dtype": "float8"}, COLUMNS[1]]}, "columns[0].dtype"),
        ({"chunks": [{"rows": 1}]}, "chunks[0].columns"),
        ({"chunks": [{"rows": 1, "columns": {"a": PLACES["a"]}}]}, "chunks[0].columns.b"),
        ({"chunks": [{"rows": 1, "columns": {**PLACES, "b": {"offset": 12, "size": 8}}}]}, "chunks[0].columns.b.size"),
        ({"chunks": [{"rows": 1, "columns": {**PLACES, "b": {"offset": 4, "size": 8}}}]}, "chunks[0].columns.b.offset"),
    ],
)
def test_a_wrong_column_is_named_by_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_header(packed({**COLUMNAR, **change}, (16,)))
    assert caught.value.field == field


def test_a_version_to_come_and_a_header_cut_off_are_told() -> None:
    with pytest.raises(Unsupported, match=r"CVC version 3\.0 is newer"):
        read_header(packed(HEADER, version=(3, 0)))
    whole = packed(HEADER)
    data = whole.read_at(0, whole.size)
    with pytest.raises(Corrupt, match="not a CVC file"):
        read_header(MemorySource(b"CVCG" + data[4:], "a.cvc"))
    for cut in (20, len(data) - 1, len(data) - 10):
        with pytest.raises(Truncated):
            read_header(MemorySource(data[:cut], "a.cvc"))


def test_bytes_after_the_last_chunk_are_a_note() -> None:
    whole = packed(HEADER)
    header = read_header(MemorySource(whole.read_at(0, whole.size) + b"xyz", "a.cvc"))
    assert header.end == whole.size and header.notes[0].startswith("3 extra bytes after the last chunk")
