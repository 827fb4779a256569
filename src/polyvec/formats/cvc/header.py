"""The header of a CVC file: found in either layout, parsed strictly, and checked against the bytes that exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.layout import take
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json
from polyvec.formats.cvc.chunks import ChunkReader, end_of
from polyvec.formats.cvc.fields import Fields
from polyvec.formats.cvc.structure import (
    DOCUMENT,
    DOCUMENT_CHUNK,
    MAGIC,
    MAX_HEADER_BYTES,
    VERSIONED,
    VERSIONED_CHUNK,
    Chunk,
    ColumnSpec,
    Header,
    Json,
    Section,
)

MAX_MAJOR = 2


def read_header(source: Source) -> Header:
    """The header of a file, in either layout; `FormatError` with offset and field where anything is wrong."""
    try:
        return _read(source)
    except FormatError as error:
        raise error.located(source.label) from None


def find_layout(source: Source) -> tuple[str, tuple[int, int], int, int]:
    """Layout, version, JSON offset and length: that reading whose header can be a JSON object."""
    head = source.read_at(0, VERSIONED.size)
    if head[:4] != MAGIC:
        raise Corrupt("not a CVC file", offset=0, field="magic", expected=MAGIC.decode(), found=repr(head[:4]))
    word = DOCUMENT.read(source)["header_len"]
    readings = [("document", (0, 1), DOCUMENT.size, word)]
    if len(head) >= VERSIONED.size:
        found = VERSIONED.read(source)
        readings.append(("versioned", (found["major"], found["minor"]), VERSIONED.size, found["header_len"]))
    able = [r for r in readings if _opens_object(source, r[2], r[3])]
    if len(able) > 1:
        # Both begin with a brace: the length of one of them is an accident. A JSON object ends with a brace too.
        able = [
            r for r in able if source.read_at(r[2], min(r[3], MAX_HEADER_BYTES)).rstrip(b" \t\r\n").endswith(b"}")
        ] or able
    if able:
        return able[-1] if len(able) > 1 and word < 4 else able[0]
    major, minor = word & 0xFFFF, word >> 16
    versioned = len(readings) > 1 and 1 <= major <= 10 and minor <= 100
    return readings[1] if versioned else readings[0]


def _opens_object(source: Source, at: int, size: int) -> bool:
    return 2 <= size <= source.size - at and source.read_at(at, min(size, 4096)).lstrip(b" \t\r\n")[:1] == b"{"


def _read(source: Source) -> Header:
    layout, version, at, size = find_layout(source)
    _check_prelude(source, layout, version, at, size)
    fields = Fields(at)
    json = parse_json(take(source, at, size, "header"), offset=at, field="header")
    if not isinstance(json, dict):
        raise fields.fail("the header is not a JSON object", "header", "{…}", type(json).__name__)
    rows = fields.count(json, "num_vectors")
    columnar = _is_columnar(json, at)
    columns = tuple(_columns(json, fields) if columnar else [_single(json, rows, fields)])
    entries = json.get("chunks")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise fields.fail("the chunks are not a list of objects", "chunks", "[{…}]", type(entries).__name__)
    words = VERSIONED_CHUNK if layout == "versioned" else DOCUMENT_CHUNK
    reader = ChunkReader(source, fields, words, columns, columnar, json.get("compression"))
    chunks = tuple(reader.read(entries, at + size))
    total = sum(chunk.rows for chunk in chunks)
    if total != rows:
        raise fields.fail("the chunks do not add up", "num_vectors", f"{total} (the sum of rows)", rows)
    end = end_of(chunks, at + size, fields)
    extra = f"{source.size - end} extra bytes after the last chunk, from byte {end} on, are ignored"
    return Header(
        layout=layout,
        version=version,
        json=json,
        json_offset=at,
        header_len=size,
        rows=rows,
        columnar=columnar,
        columns=columns,
        chunks=chunks,
        sections=tuple(_sections(json, chunks, rows, fields)),
        end=end,
        notes=(extra,) if end < source.size else (),
    )


def _check_prelude(source: Source, layout: str, version: tuple[int, int], at: int, size: int) -> None:
    place = (VERSIONED if layout == "versioned" else DOCUMENT).offset("header_len")
    if layout == "versioned" and version[0] > MAX_MAJOR:
        raise Unsupported(
            f"CVC version {version[0]}.{version[1]} is newer than this reader",
            offset=4,
            field="major",
            expected=f"at most {MAX_MAJOR}",
            found=version[0],
            remedy="upgrade polyvec",
        )
    if size > source.size - at:
        raise Truncated(
            "the file ends inside its header",
            offset=place,
            field="header_len",
            expected=f"at most {max(0, source.size - at)} bytes",
            found=size,
            remedy="fetch the file again",
        )
    if size > MAX_HEADER_BYTES:
        raise Unsupported(
            "the header is too large",
            offset=place,
            field="header_len",
            expected=f"at most {MAX_HEADER_BYTES} bytes",
            found=size,
        )


def _is_columnar(json: Json, at: int) -> bool:
    kind = json.get("format_type", "columnar" if "columns" in json and "dimension" not in json else "single")
    if kind not in ("columnar", "single"):
        raise Unsupported(
            "unknown format_type",
            offset=at,
            field="format_type",
            expected="columnar or single",
            found=str(kind)[:40],
        )
    return bool(kind == "columnar")


def _single(json: Json, rows: int, fields: Fields) -> ColumnSpec:
    dimension = fields.count(json, "dimension")
    if rows and not dimension:
        raise fields.fail("rows of dimension 0", "dimension", "at least 1", 0)
    return ColumnSpec(
        "vectors", (dimension,), np.dtype("<f4"), fields.compression(json.get("compression"), "compression")
    )


def _columns(json: Json, fields: Fields) -> Iterator[ColumnSpec]:
    declared = json.get("columns")
    if not isinstance(declared, list) or not declared or not all(isinstance(c, dict) for c in declared):
        raise fields.fail("the columns are not a list of objects", "columns", "[{…}]", type(declared).__name__)
    seen: set[str] = set()
    for number, column in enumerate(declared):
        path = f"columns[{number}]."
        name = column.get("name")
        if not isinstance(name, str) or name in seen:
            raise fields.fail(
                "a column has no name of its own", f"{path}name", "a string that no other column has", name
            )
        seen.add(name)
        dimension = fields.count(column, "dimension", path)
        if not dimension:
            raise fields.fail("a column of dimension 0", f"{path}dimension", "at least 1", 0)
        yield ColumnSpec(
            name,
            () if dimension == 1 else (dimension,),
            fields.dtype(column.get("dtype"), f"{path}dtype"),
            fields.compression(column.get("compression"), f"{path}compression"),
        )


# -- sections


def _sections(json: Json, chunks: tuple[Chunk, ...], rows: int, fields: Fields) -> Iterator[Section]:
    """The header's sections, else those that chunks state; in order, inside the rows, not overlapping."""
    stated = json.get("sections")
    listed = _chunk_sections(chunks, fields) if stated is None else _file_sections(stated, rows, fields)
    at = 0
    for path, start, stop, metadata in list(listed):
        if start < at or stop < start:
            raise fields.fail("sections overlap or run backwards", f"{path}start_index", f"from {at} on", (start, stop))
        if not isinstance(metadata, dict):
            raise fields.fail("a section's metadata is no object", f"{path}metadata", "{…}", type(metadata).__name__)
        at = stop
        yield Section(start, stop, metadata)


def _file_sections(stated: Any, rows: int, fields: Fields) -> Iterator[tuple[str, int, int, Any]]:
    if not isinstance(stated, list):
        raise fields.fail("the sections are not a list", "sections", "[{…}]", type(stated).__name__)
    for number, section in enumerate(stated):
        path = f"sections[{number}]."
        if not isinstance(section, dict):
            raise fields.fail("a section is no object", path[:-1], "{…}", type(section).__name__)
        start = fields.count(section, "start_index", path, rows)
        stop = fields.count(section, "end_index", path, rows)
        yield path, start, stop, section.get("metadata", {})


def _chunk_sections(chunks: tuple[Chunk, ...], fields: Fields) -> Iterator[tuple[str, int, int, Any]]:
    for chunk in chunks:
        parts = chunk.entry.get("sections", [])
        path = f"chunks[{chunk.index}].sections"
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise fields.fail("a chunk's sections are not a list of objects", path, "[{…}]", type(parts).__name__)
        for number, part in enumerate(parts):
            name = f"{path}[{number}]."
            low = fields.count(part, "start_in_chunk", name, chunk.rows)
            high = fields.count(part, "end_in_chunk", name, chunk.rows)
            yield name, chunk.start + low, chunk.start + high, part.get("metadata", {})
