"""Boxes: a format for tests alone, with everything at once that real formats need one by one.

::

    offset 0   'BOXES1\\0\\0'
    offset 8   totals and places, written last (see HEADER), with their own CRC-32
    ...        chunks of the main column: float32 rows, or affine uint8 codes with a min and scale a chunk
    ...        chunks of the second column: float32 rows, or a float32 scale a row and then int8 codes
    ...        words (u32 length and bytes each), records (JSON lines), metadata (JSON), the table of chunks

Every chunk and every section has a CRC-32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.codecs import AffineUint8, Raw, ScaledInt8
from polyvec.core.blocks import Block, Codec, Extent, Part
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Cursor, Record, Span, take
from polyvec.core.options import Option
from polyvec.core.records import LineRecords
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source, open_source
from polyvec.core.strict_json import parse_json
from polyvec.core.vocab import Strings, Vocab
from polyvec.kernels import crc32

MAGIC = b"BOXES1\0\0"
HEADER = Record(
    "header",
    magic=8,
    rows="u8",
    dim="u4",
    marks="u8",
    mark_dim="u4",
    words="u8",
    words_size="u8",
    records="u8",
    records_size="u8",
    metadata="u8",
    metadata_size="u8",
    table="u8",
    chunks="u4",
    sections_crc="u4",
    header_crc="u4",
)
CHUNK = Record(
    "chunk",
    column="u1",
    kind="u1",
    rows="u4",
    offset="u8",
    scales="u8",
    minimum="f4",
    scale="f4",
    crc="u4",
    scales_crc="u4",
)
SECTIONS = ("words", "records", "metadata")
RAW, AFFINE, SCALED = 0, 1, 2
FLOAT = np.dtype("<f4")


class Boxes(Format):
    """The proof that the model carries what real formats need."""

    name = "boxes"
    title = "Boxes (for tests)"
    suffixes = (".boxes",)
    holds = Holds(many_columns=True, vocab=True, records=True, metadata=True, encodings=("raw", "int8"))
    options = (Option("chunk", int, "Rows of a chunk."),)
    checksummed = True

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, "starts with 'BOXES1'")]
        return [Match(Confidence.SUFFIX, "suffix .boxes; the magic is missing")] if peek.suffix == ".boxes" else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        header, entries = read_header(source)
        sections = {name: take(source, header[name], header[f"{name}_size"], name) for name in SECTIONS}
        if crc32(b"".join(sections.values())) != header["sections_crc"]:
            raise Corrupt(
                "words, records or metadata fail their checksum", offset=header["words"], field="sections_crc"
            )
        columns: dict[str, Column] = {}
        for number, (name, rows, dim) in enumerate(_columns(header)):
            columns[name] = _column(source, name, rows, dim, [e for e in entries if e["column"] == number])
        rows = header["rows"]
        words = _words(source, header["words"], header["words_size"], rows) if header["words_size"] else None
        records = None
        if header["records_size"]:
            data = sections["records"]
            if data.count(b"\n") != rows:
                raise Corrupt("one record a row is missing", offset=header["records"], expected=rows)
            records = LineRecords(open_source(data, name=source.label), rows)
        metadata = parse_json(sections["metadata"] or b"{}", offset=header["metadata"], field="metadata")
        if not isinstance(metadata, dict):
            raise Corrupt("metadata is not a JSON object", offset=header["metadata"], field="metadata")
        return Collection(columns, vocab=words, records=records, metadata=metadata)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        yield from super().check(source, variant=variant)
        for entry in read_header(source)[1]:
            if entry["kind"] == SCALED:
                scales = take(source, entry["scales"], 4 * entry["rows"], "scales")
                if crc32(scales) != entry["scales_crc"]:
                    yield Finding("error", "scales fail their checksum", entry["scales"], "scales_crc")

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        header, _ = read_header(source)
        return [*HEADER.spans(0, header), Span(header["table"], source.size - header["table"], "table")]

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        if options.encoding not in (None, *self.holds.encodings):
            raise InputError(f"boxes hold no {options.encoding} encoding")
        names = [collection.main, *(name for name in collection.columns if name != collection.main)]
        if len(names) > 2:
            raise InputError(f"boxes hold two columns, not {len(names)}")
        columns = [collection[name] for name in names]
        sink.reserve(HEADER.size)
        entries = []
        for number, column in enumerate(columns):
            wanted = options.encoding or ("int8" if column.encoding in ("affine-uint8", "scaled-int8") else "raw")
            for block in _chunks(column, number, wanted, options.own.get("chunk", 4)):
                entries.append(_write_chunk(sink, number, block))
        totals: dict[str, Any] = {
            "magic": MAGIC,
            "rows": columns[0].rows,
            "dim": collection.dim,
            "marks": 0,
            "mark_dim": 0,
            "chunks": len(entries),
            "header_crc": 0,
        }
        if len(columns) == 2:
            totals |= {"marks": columns[1].rows, "mark_dim": columns[1].row_shape[0]}
        crc = 0
        for name, data in zip(SECTIONS, _sections(collection)):
            totals |= {name: sink.write(data), f"{name}_size": len(data)}
            crc = crc32(data, crc)
        table = b"".join(CHUNK.pack(entry) for entry in entries)
        totals |= {"sections_crc": crc, "table": sink.write(table)}
        totals["header_crc"] = crc32(table, crc32(HEADER.pack(totals)))
        sink.write_at(0, HEADER.pack(totals))


def _columns(header: dict[str, Any]) -> list[tuple[str, int, int]]:
    first = ("vectors", header["rows"], header["dim"])
    return [first, ("marks", header["marks"], header["mark_dim"])] if header["mark_dim"] else [first]


def read_header(source: Source) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The totals and the table of chunks, checked."""
    header = HEADER.read(source)
    if header["magic"] != MAGIC:
        raise Corrupt("not a boxes file", offset=0, field="magic", expected=MAGIC, found=header["magic"])
    table = take(source, header["table"], header["chunks"] * CHUNK.size, "table")
    if header["table"] + len(table) != source.size:
        raise Corrupt("bytes after the table", offset=header["table"] + len(table))
    if crc32(table, crc32(HEADER.pack({**header, "header_crc": 0}))) != header["header_crc"]:
        raise Corrupt("the header fails its checksum", offset=HEADER.offset("header_crc"), field="header_crc")
    cursor = Cursor(source, header["table"])
    return header, [cursor.read(CHUNK) for _ in range(header["chunks"])]


def _column(source: Source, name: str, rows: int, dim: int, entries: list[dict[str, Any]]) -> Column:
    extents, start = [], 0
    if rows and not dim:
        raise Corrupt("rows of dimension 0", field="dim")
    for entry in entries:
        codec: Codec = Raw(FLOAT)
        others: tuple[Part, ...] = ()
        if entry["kind"] == AFFINE:
            codec = AffineUint8(entry["minimum"], entry["scale"])
        elif entry["kind"] == SCALED:
            codec = ScaledInt8()
            others = (Part("scale", entry["scales"]),)
            Cursor(source, entry["scales"]).require(4 * entry["rows"], "scales")
        size = entry["rows"] * (codec.row_bytes((dim,)) or 0)
        if entry["offset"] > source.size:
            raise Corrupt("a chunk lies outside the file", offset=entry["offset"])
        Cursor(source, entry["offset"]).require(size, "chunk")
        if entry["rows"]:
            extents.append(Extent(start, entry["rows"], entry["offset"], size, codec, entry["crc"], None, others))
        start += entry["rows"]
    if start != rows:
        raise Corrupt("the chunks do not add up to the rows", field="rows", expected=rows, found=start)
    encodings = {extent.codec.name for extent in extents} or {"raw"}
    encoding = encodings.pop() if len(encodings) == 1 else "mixed"
    return FileColumn(name, source, extents, row_shape=(dim,), encoding=encoding, dtype=FLOAT)


def _chunks(column: Column, number: int, wanted: str, rows: int) -> Iterator[Block]:
    """Blocks in the encoding wanted: as they are where they have it, else fitted a chunk at a time."""
    if column.dtype != np.float32:
        raise InputError(f"boxes hold float32, not {column.dtype}")
    kind = "raw" if wanted == "raw" else ("affine-uint8", "scaled-int8")[number]
    if column.encoding == kind != "raw":
        yield from column.blocks()
        return
    for start in range(0, column.rows, rows):
        piece = column[start : start + rows]
        codec: Codec = Raw(FLOAT) if wanted == "raw" else ScaledInt8() if number else AffineUint8.fit([piece])
        yield Block(start, codec.encode(piece), codec, len(piece))


def _write_chunk(sink: Sink, number: int, block: Block) -> dict[str, Any]:
    codec, codes = block.codec, np.ascontiguousarray(block.parts["codes"])
    entry = {
        "column": number,
        "kind": RAW,
        "rows": block.rows,
        "scales": 0,
        "minimum": 0.0,
        "scale": 0.0,
        "crc": crc32(codes),
        "scales_crc": 0,
    }
    if isinstance(codec, AffineUint8):
        entry |= {"kind": AFFINE, "minimum": codec.minimum, "scale": codec.scale}
    elif isinstance(codec, ScaledInt8):
        scales = np.ascontiguousarray(block.parts["scale"])
        entry |= {"kind": SCALED, "scales": sink.write(scales), "scales_crc": crc32(scales)}
    return entry | {"offset": sink.write(codes)}


def _sections(collection: Collection) -> tuple[bytes, bytes, bytes]:
    words = [] if collection.vocab is None else [w.encode() for w in collection.vocab]
    records = collection.records if collection.records is not None else ()
    return (
        b"".join(len(word).to_bytes(4, "little") + word for word in words),
        b"".join(json.dumps(dict(record)).encode() + b"\n" for record in records),
        json.dumps(collection.metadata).encode() if collection.metadata else b"",
    )


def _words(source: Source, offset: int, size: int, rows: int) -> Vocab:
    cursor = Cursor(source, offset, offset + size)
    starts, stops = [], []
    while cursor.left:
        length = cursor.number("u4", "word length")
        starts.append(cursor.skip(length, "word"))
        stops.append(cursor.offset)
    if len(starts) != rows:
        raise Corrupt("one word a row is missing", offset=offset, expected=rows, found=len(starts))
    return Vocab(Strings(source.mapped(0, source.size), np.array(starts), np.array(stops), label=source.label))


FORMAT = Boxes()
