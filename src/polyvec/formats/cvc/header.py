"""The header of a CVC file: found in either layout, parsed strictly, and checked against the bytes that exist."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from polyvec.codecs import AffineUint8, BFloat16, BytePlanes, Float16, Raw
from polyvec.core.blocks import Codec, Extent
from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.layout import Record, take
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json

MAGIC = b"CVCF"
DOCUMENT = Record("prelude", magic=4, header_len="u4")
VERSIONED = Record("prelude", magic=4, major="u2", minor="u2", header_len="u4")
DOCUMENT_CHUNK = Record("chunk", length="u4")
VERSIONED_CHUNK = Record("chunk", length="u4", crc32="u4")

MAX_HEADER_BYTES = 16 << 20  # some 150,000 chunks; beyond that a header is a mistake or an attack
MAX_MAJOR = 2
COMPRESSIONS = ("fp16", "int8", "none", "lossless", "bfloat16")
# The first six are those of real files; the others are ours, for columns that must not change their type.
DTYPES = (
    "float32",
    "float16",
    "int32",
    "int64",
    "int8",
    "uint8",
    "float64",
    "uint32",
    "int16",
    "uint16",
    "uint64",
    "bool",
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as the header declares it. ``dtype`` is what ``none`` stores; every compression decodes to float32."""

    name: str
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compression: str

    @property
    def dimension(self) -> int:
        """Values in a row."""
        return self.row_shape[0] if self.row_shape else 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: its rows, where it lies, its checksum, and where each column lies in it."""

    index: int
    start: int
    rows: int
    offset: int  # of its length word
    payload: int  # of its first payload byte
    size: int  # of the payload
    crc: int | None
    pieces: Mapping[str, Extent]
    entry: Json  # its JSON, as it stands


@dataclass(frozen=True, slots=True)
class Section:
    """Rows ``start`` to ``stop`` that share a record."""

    start: int
    stop: int
    metadata: Json


@dataclass(frozen=True, slots=True)
class Header:
    """All that a CVC file says of itself, checked."""

    layout: str  # "document" or "versioned"
    version: tuple[int, int]
    json: Json
    json_offset: int
    header_len: int
    rows: int
    columnar: bool
    columns: tuple[ColumnSpec, ...]
    chunks: tuple[Chunk, ...]
    sections: tuple[Section, ...]
    end: int  # of the last chunk
    notes: tuple[str, ...] = field(default=())

    @property
    def mapped(self) -> bool:
        """Whether chunks lie at stated, page-aligned offsets."""
        return bool(self.json.get("mmap_optimized")) or any("file_offset" in c.entry for c in self.chunks)

    @property
    def chunk_words(self) -> Record:
        """What stands before each payload."""
        return VERSIONED_CHUNK if self.layout == "versioned" else DOCUMENT_CHUNK

    def extents(self, name: str) -> list[Extent]:
        """A column's extents, without those of empty chunks."""
        return [chunk.pieces[name] for chunk in self.chunks if chunk.rows]

    def chunks_of(self, start: int, stop: int) -> Sequence[Chunk]:
        """The chunks that hold rows ``start`` to ``stop``."""
        first = max(0, bisect_right(self.chunks, start, key=lambda chunk: chunk.start) - 1)
        last = bisect_left(self.chunks, stop, key=lambda chunk: chunk.start)
        return [chunk for chunk in self.chunks[first:last] if chunk.start + chunk.rows > start]

    def spec(self, name: str) -> ColumnSpec:
        """A column's declaration; KeyError where there is none."""
        for spec in self.columns:
            if spec.name == name:
                return spec
        raise KeyError(f"no column {name!r}; there are {', '.join(s.name for s in self.columns)}")


def read_header(source: Source) -> Header:
    """The header of a file, in either layout; `FormatError` with offset and field where anything is wrong."""
    try:
        return _Parser(source).parse()
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


class _Parser:
    """Reads one header; every error names the field by its path and the nearest byte offset."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.notes: list[str] = []
        self.at = 0  # the JSON's offset, for errors in its fields

    def parse(self) -> Header:
        source = self.source
        layout, version, self.at, size = find_layout(source)
        record = VERSIONED if layout == "versioned" else DOCUMENT
        if layout == "versioned" and version[0] > MAX_MAJOR:
            raise Unsupported(
                f"CVC version {version[0]}.{version[1]} is newer than this reader",
                offset=4,
                field="major",
                expected=f"at most {MAX_MAJOR}",
                found=version[0],
                remedy="upgrade polyvec",
            )
        if size > source.size - self.at:
            raise Truncated(
                "the file ends inside its header",
                offset=record.offset("header_len"),
                field="header_len",
                expected=f"at most {max(0, source.size - self.at)} bytes",
                found=size,
                remedy="fetch the file again",
            )
        if size > MAX_HEADER_BYTES:
            raise Unsupported(
                "the header is too large",
                offset=record.offset("header_len"),
                field="header_len",
                expected=f"at most {MAX_HEADER_BYTES} bytes",
                found=size,
            )
        json = parse_json(take(source, self.at, size, "header"), offset=self.at, field="header")
        if not isinstance(json, dict):
            raise self.fail("the header is not a JSON object", "header", "{…}", type(json).__name__)
        rows = self.count(json, "num_vectors")
        columnar = self.columnar(json)
        columns = tuple(self.columns(json) if columnar else [self.single(json, rows)])
        entries = json.get("chunks")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.fail("the chunks are not a list of objects", "chunks", "[{…}]", type(entries).__name__)
        chunks = tuple(self.chunks(json, entries, columns, layout, self.at + size, columnar))
        total = sum(chunk.rows for chunk in chunks)
        if total != rows:
            raise self.fail("the chunks do not add up", "num_vectors", f"{total} (the sum of rows)", rows)
        end = self.ends(chunks, self.at + size)
        if end < source.size:
            self.notes.append(f"{source.size - end} extra bytes after the last chunk, from byte {end} on, are ignored")
        return Header(
            layout,
            version,
            json,
            self.at,
            size,
            rows,
            columnar,
            columns,
            chunks,
            tuple(self.sections(json, chunks, rows)),
            end,
            tuple(self.notes),
        )

    # -- fields

    def fail(self, message: str, name: str, expected: Any, found: Any, offset: int | None = None) -> Corrupt:
        shown = found if isinstance(found, (int, float)) else str(found)[:100]
        return Corrupt(
            message, offset=self.at if offset is None else offset, field=name, expected=expected, found=shown
        )

    def count(self, json: Json, key: str, path: str = "", most: int | None = None) -> int:
        """A whole number that is there and not negative."""
        value = json.get(key)
        name = f"{path}{key}"
        if type(value) is not int or value < 0:
            found = "nothing" if key not in json else value
            raise self.fail(f"{name} is not a count", name, "a whole number of at least 0", found)
        if most is not None and value > most:
            raise self.fail(f"{name} is too large", name, f"at most {most}", value)
        return value

    def number(self, json: Json, key: str, path: str) -> float:
        """A finite number that float32 can hold."""
        value = json.get(key)
        name = f"{path}{key}"
        if type(value) not in (int, float):
            raise self.fail(
                f"{name} is missing or no number", name, "a finite number", "nothing" if key not in json else value
            )
        try:
            with np.errstate(over="ignore"):
                single = float(np.float32(float(value)))  # type: ignore[arg-type]
        except OverflowError:
            single = math.inf
        if not math.isfinite(single):
            raise self.fail(f"{name} is not finite", name, "a finite number", str(value)[:40])
        return single

    def columnar(self, json: Json) -> bool:
        kind = json.get("format_type", "columnar" if "columns" in json and "dimension" not in json else "single")
        if kind not in ("columnar", "single"):
            raise Unsupported(
                "unknown format_type",
                offset=self.at,
                field="format_type",
                expected="columnar or single",
                found=str(kind)[:40],
            )
        return bool(kind == "columnar")

    def compression(self, value: Any, name: str) -> str:
        if value not in COMPRESSIONS:
            raise Unsupported(
                "unknown compression",
                offset=self.at,
                field=name,
                expected=" or ".join(COMPRESSIONS),
                found=str(value)[:40],
            )
        return str(value)

    def single(self, json: Json, rows: int) -> ColumnSpec:
        dimension = self.count(json, "dimension")
        if rows and not dimension:
            raise self.fail("rows of dimension 0", "dimension", "at least 1", 0)
        return ColumnSpec(
            "vectors", (dimension,), np.dtype("<f4"), self.compression(json.get("compression"), "compression")
        )

    def dtype(self, value: Any, name: str) -> np.dtype[Any]:
        if value not in DTYPES:
            raise Unsupported(
                "unknown dtype", offset=self.at, field=name, expected=" or ".join(DTYPES), found=str(value)[:40]
            )
        stored: np.dtype[Any] = np.dtype(str(value)).newbyteorder("<")
        return stored

    def columns(self, json: Json) -> Iterator[ColumnSpec]:
        declared = json.get("columns")
        if not isinstance(declared, list) or not declared or not all(isinstance(c, dict) for c in declared):
            raise self.fail("the columns are not a list of objects", "columns", "[{…}]", type(declared).__name__)
        seen: set[str] = set()
        for number, column in enumerate(declared):
            path = f"columns[{number}]."
            name = column.get("name")
            if not isinstance(name, str) or name in seen:
                raise self.fail(
                    "a column has no name of its own", f"{path}name", "a string that no other column has", name
                )
            seen.add(name)
            dimension = self.count(column, "dimension", path)
            if not dimension:
                raise self.fail("a column of dimension 0", f"{path}dimension", "at least 1", 0)
            yield ColumnSpec(
                name,
                () if dimension == 1 else (dimension,),
                self.dtype(column.get("dtype"), f"{path}dtype"),
                self.compression(column.get("compression"), f"{path}compression"),
            )

    # -- chunks

    def chunks(
        self, json: Json, entries: list[Json], columns: tuple[ColumnSpec, ...], layout: str, at: int, columnar: bool
    ) -> Iterator[Chunk]:
        words = VERSIONED_CHUNK if layout == "versioned" else DOCUMENT_CHUNK
        start, first = 0, at
        for index, entry in enumerate(entries):
            path = f"chunks[{index}]."
            rows = self.count(entry, "rows", path)
            if "file_offset" in entry:
                at = self.count(entry, "file_offset", path)
                if at < first:
                    raise self.fail("a chunk lies inside the header", f"{path}file_offset", f"at least {first}", at)
            if at + words.size > self.source.size:
                raise Truncated(
                    "the file ends before its last chunk",
                    offset=at,
                    field=f"{path}length",
                    expected=f"{words.size} bytes",
                    found=f"{max(0, self.source.size - at)} bytes",
                    remedy="fetch the file again",
                )
            found = words.read(self.source, at)
            size, payload = found["length"], at + words.size
            if size > self.source.size - payload:
                raise Truncated(
                    "a chunk reaches past the end of the file",
                    offset=at,
                    field=f"{path}length",
                    expected=f"at most {self.source.size - payload} bytes",
                    found=size,
                    remedy="fetch the file again",
                )
            crc = self.checksum(entry, path)
            if crc is not None and found.get("crc32", crc) != crc:
                raise self.fail(
                    "a chunk has two checksums", f"{path}crc32", f"{found['crc32']} (before its payload)", crc
                )
            crc = found.get("crc32", crc)
            if columnar:
                pieces = self.pieces(entry, columns, path, start, rows, payload, size)
            else:
                compression = self.compression(entry.get("compression", json.get("compression")), f"{path}compression")
                codec = self.codec(columns[0], compression, entry, path)
                self.measure(codec, columns[0], rows, size, f"{path}length", at)
                pieces = {"vectors": Extent(start, rows, payload, size, codec, crc)}
            yield Chunk(index, start, rows, at, payload, size, crc, pieces, entry)
            start, at = start + rows, payload + size

    def checksum(self, entry: Json, path: str) -> int | None:
        return self.count(entry, "crc32", path, 2**32 - 1) if "crc32" in entry else None

    def codec(self, spec: ColumnSpec, compression: str, entry: Json, path: str) -> Codec:
        if compression == "fp16":
            return Raw(spec.dtype) if spec.dtype == np.float16 else Float16()
        if compression == "int8":
            return AffineUint8(self.number(entry, "min", path), self.number(entry, "scale", path))
        if compression == "lossless":
            return BytePlanes(spec.row_shape)
        return BFloat16() if compression == "bfloat16" else Raw(spec.dtype)

    def measure(self, codec: Codec, spec: ColumnSpec, rows: int, size: int, name: str, offset: int) -> None:
        """The payload must be as large as its rows; a lossless one at least as large as one bit a plane and value."""
        width = codec.row_bytes(spec.row_shape)
        if width is None:
            if rows * spec.dimension > 2 * size:
                raise self.fail(
                    "a lossless chunk is too small for its rows",
                    name,
                    f"at least {rows * spec.dimension // 2} bytes",
                    size,
                    offset,
                )
        elif size != rows * width:
            raise self.fail(f"a chunk of {rows} rows has the wrong size", name, f"{rows * width} bytes", size, offset)

    def pieces(
        self, entry: Json, columns: tuple[ColumnSpec, ...], path: str, start: int, rows: int, payload: int, size: int
    ) -> dict[str, Extent]:
        places = entry.get("columns")
        if not isinstance(places, dict):
            raise self.fail("a chunk does not place its columns", f"{path}columns", "{…}", type(places).__name__)
        pieces: dict[str, Extent] = {}
        for spec in columns:
            name = f"{path}columns.{spec.name}."
            place = places.get(spec.name)
            if not isinstance(place, dict):
                raise self.fail(
                    "a chunk lacks a column", name[:-1], "{offset, size, …}", "nothing" if place is None else place
                )
            offset = self.count(place, "offset", name, size)
            length = self.count(place, "size", name, size - offset)
            compression = self.compression(place.get("compression", spec.compression), f"{name}compression")
            codec = self.codec(spec, compression, place, name)
            self.measure(codec, spec, rows, length, f"{name}size", payload + offset)
            pieces[spec.name] = Extent(start, rows, payload + offset, length, codec, self.checksum(place, name))
        ordered = sorted(((p.offset, p.size, n) for n, p in pieces.items() if p.size), key=lambda piece: piece[0])
        for (one, length, first), (two, _, second) in pairwise(ordered):
            if one + length > two:
                raise self.fail(
                    f"columns {first!r} and {second!r} overlap",
                    f"{path}columns.{second}.offset",
                    f"at least {one + length - payload}",
                    two - payload,
                )
        return pieces

    def ends(self, chunks: tuple[Chunk, ...], first: int) -> int:
        """Where the last chunk ends; chunks that lie anywhere must not overlap."""
        end = first
        for chunk in sorted(chunks, key=lambda c: c.offset):
            if chunk.offset < end:
                raise self.fail(
                    "two chunks overlap", f"chunks[{chunk.index}].file_offset", f"at least {end}", chunk.offset
                )
            end = chunk.payload + chunk.size
        return end

    # -- sections

    def sections(self, json: Json, chunks: tuple[Chunk, ...], rows: int) -> Iterator[Section]:
        """The header's sections, else those that chunks state; in order, inside the rows, not overlapping."""
        stated = json.get("sections")
        listed: list[tuple[str, int, int, Any]] = []
        if stated is not None:
            if not isinstance(stated, list):
                raise self.fail("the sections are not a list", "sections", "[{…}]", type(stated).__name__)
            for number, section in enumerate(stated):
                path = f"sections[{number}]."
                if not isinstance(section, dict):
                    raise self.fail("a section is no object", path[:-1], "{…}", type(section).__name__)
                listed.append(
                    (
                        path,
                        self.count(section, "start_index", path, rows),
                        self.count(section, "end_index", path, rows),
                        section.get("metadata", {}),
                    )
                )
        else:
            listed.extend(self.chunk_sections(chunks))
        at = 0
        for path, start, stop, metadata in listed:
            if start < at or stop < start:
                raise self.fail(
                    "sections overlap or run backwards", f"{path}start_index", f"from {at} on", (start, stop)
                )
            if not isinstance(metadata, dict):
                raise self.fail("a section's metadata is no object", f"{path}metadata", "{…}", type(metadata).__name__)
            at = stop
            yield Section(start, stop, metadata)

    def chunk_sections(self, chunks: tuple[Chunk, ...]) -> Iterator[tuple[str, int, int, Any]]:
        for chunk in chunks:
            parts = chunk.entry.get("sections", [])
            path = f"chunks[{chunk.index}].sections"
            if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
                raise self.fail("a chunk's sections are not a list of objects", path, "[{…}]", type(parts).__name__)
            for number, part in enumerate(parts):
                name = f"{path}[{number}]."
                low = self.count(part, "start_in_chunk", name, chunk.rows)
                high = self.count(part, "end_in_chunk", name, chunk.rows)
                yield name, chunk.start + low, chunk.start + high, part.get("metadata", {})
