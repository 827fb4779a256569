"""VMAT: rows first, and at the end of the file what they are.

::

    offset 0      rows      n * dim values, little endian, row-major: float32 (kind 0) or float16 (kind 1)
    then          notes     a JSON object in UTF-8, notes_size bytes
    last 48       footer    u64 n, u32 dim, u32 kind, u64 notes_size, u32 rows_crc, u32 notes_crc,
                            u32 footer_crc (of the footer's first 32 bytes), u32 zero, 8 bytes of magic

A program can append rows until it is done and knows how many there are, which is why the magic stands at the end. The
checksums are CRC-32. The first programs wrote no footer at all: of such a file the dimension must be said
(``dim=128``), and its rows are float32.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.plugins import (
    Collection,
    Confidence,
    Corrupt,
    Extent,
    FileColumn,
    Finding,
    Format,
    Holds,
    Match,
    Option,
    Peek,
    Raw,
    Record,
    Sink,
    Source,
    Span,
    Truncated,
    Unsupported,
    WriteOptions,
    check_rows,
    parse_json,
    take,
    transcode,
)

MAGIC = b"\x89VMAT\r\n\x1a"
FOOTER = Record(
    "footer",
    n="u8",
    dim="u4",
    kind="u4",
    notes_size="u8",
    rows_crc="u4",
    notes_crc="u4",
    footer_crc="u4",
    zero="u4",
    magic=len(MAGIC),
)
GUARDED = FOOTER.offset("footer_crc")  # the bytes of the footer that its own checksum covers
DTYPES = (np.dtype("<f4"), np.dtype("<f2"))  # of the values, by kind
MAX_NOTES = 1 << 20  # nobody writes a megabyte of notes by hand; a hostile size costs no more than this


class Vmat(Format):
    """Rows, notes, footer."""

    name = "vmat"
    title = "VMAT (rows first, footer last)"
    suffixes = (".vmat",)
    aliases = {"vmat16": "float16"}  # noqa: RUF012 (`--to vmat16` is `--to vmat --encoding float16`)
    holds = Holds(metadata=True, encodings=("raw", "float16"), dtypes=DTYPES)
    reading = (Option("dim", int, "Values in a row, of a file without a footer.", least=1),)
    options = (Option("title", str, "A line to keep among the notes."),)
    checksummed = True

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.tail.endswith(MAGIC):
            return [Match(Confidence.MAGIC, "the last 8 bytes are VMAT's")]
        if peek.suffix == ".vmat":
            return [Match(Confidence.SUFFIX, "suffix .vmat; there is no footer")]
        return []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        if "dim" in own and not self.guarded(source):
            return _open_bare(source, own["dim"], lenient)
        footer = read_footer(source)
        dtype, n, dim = DTYPES[footer["kind"]], footer["n"], footer["dim"]
        size = n * dim * dtype.itemsize
        extent = Extent(0, n, 0, size, Raw(dtype), crc=footer["rows_crc"])
        column = FileColumn("vectors", source, [extent], row_shape=(dim,), encoding="raw")
        return Collection({"vectors": column}, metadata=read_notes(source, size, footer))

    def prepare(self, collection: Collection, own: Any) -> tuple[Collection, list[str]]:
        if "title" in own:
            collection = collection.with_parts(metadata={**collection.metadata, "title": own["title"]})
        return collection, []

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return f"raw {_dtype(collection, options).name}"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        column, dtype, crc = collection.vectors, _dtype(collection, options), 0
        for block in column.blocks(options.chunk_rows, reuse=True):
            codes = np.ascontiguousarray(transcode(block, Raw(dtype)).parts["codes"])
            crc = zlib.crc32(codes.data.cast("B") if codes.size else b"", crc)
            sink.write(codes)
            if options.progress:
                options.progress(block.start + block.rows, column.rows)
        notes = json.dumps(dict(collection.metadata), sort_keys=True, ensure_ascii=False).encode()
        sink.write(notes)
        values = {
            "n": column.rows,
            "dim": collection.dim,
            "kind": DTYPES.index(dtype),
            "notes_size": len(notes),
            "rows_crc": crc,
            "notes_crc": zlib.crc32(notes),
            "footer_crc": 0,
            "zero": 0,
            "magic": MAGIC,
        }
        values["footer_crc"] = zlib.crc32(FOOTER.pack(values)[:GUARDED])
        sink.write(FOOTER.pack(values))

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant, **self.said) as collection:
            yield from (Finding("warning", note) for note in collection.notes)
            if not self.guarded(source):
                yield Finding("note", "a file without a footer has no checksums", field="footer")
            yield from check_rows(collection)

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        return last_bytes(source) == MAGIC

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        footer = read_footer(source)
        at = source.size - FOOTER.size - footer["notes_size"]
        rows = Span(0, at, "rows", f"{footer['n']} x {footer['dim']} {DTYPES[footer['kind']].name}")
        notes = Span(at, footer["notes_size"], "notes", "JSON")
        return [rows, notes, *FOOTER.spans(source.size - FOOTER.size, footer)]


def last_bytes(source: Source) -> bytes:
    """Where the magic stands."""
    return source.read_at(max(0, source.size - len(MAGIC)), len(MAGIC))


def read_footer(source: Source) -> dict[str, Any]:
    """The footer, every promise of it compared with the bytes that exist."""
    at, end = source.size - FOOTER.size, last_bytes(source)
    if at < 0 or end != MAGIC:
        raise Truncated(
            "the file has no footer: its end is missing, or it is of a program that wrote none",
            offset=source.size,
            field="magic",
            expected=MAGIC.hex(" "),
            found=end.hex(" ") or "nothing",
            remedy="fetch the file again, or say its dimension with --option dim=N (dim=N)",
        )
    values = FOOTER.read(source, at)
    found = zlib.crc32(take(source, at, GUARDED, "footer"))
    if found != values["footer_crc"] or values["zero"]:
        raise Corrupt(
            "the footer fails its checksum",
            offset=at,
            field="footer_crc",
            expected=f"{values['footer_crc']:#010x}",
            found=f"{found:#010x}",
            remedy="fetch the file again",
        )
    if values["kind"] >= len(DTYPES):
        raise Unsupported("an unknown kind of values", offset=at, field="kind", expected="0 or 1", found=values["kind"])
    if values["n"] and not values["dim"]:
        raise Corrupt("rows of dimension 0", offset=at, field="dim", expected="at least 1", found=0)
    size = values["n"] * values["dim"] * DTYPES[values["kind"]].itemsize + values["notes_size"] + FOOTER.size
    if size != source.size:
        raise Truncated(
            f"the footer promises {values['n']} rows of {values['dim']} values, and the size is another",
            offset=at,
            field="n, dim",
            expected=f"{size} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again",
        )
    return values


def read_notes(source: Source, at: int, footer: dict[str, Any]) -> dict[str, Any]:
    """The notes: a JSON object that its checksum vouches for."""
    if footer["notes_size"] > MAX_NOTES:
        raise Unsupported(
            "the notes are too long",
            offset=at,
            field="notes_size",
            expected=f"at most {MAX_NOTES}",
            found=footer["notes_size"],
        )
    data = take(source, at, footer["notes_size"], "notes")
    found = zlib.crc32(data)
    if found != footer["notes_crc"]:
        raise Corrupt(
            "the notes fail their checksum",
            offset=at,
            field="notes_crc",
            expected=f"{footer['notes_crc']:#010x}",
            found=f"{found:#010x}",
            remedy="fetch the file again",
        )
    notes = parse_json(data, path=source.label, offset=at, field="notes")
    if not isinstance(notes, dict):
        raise Corrupt("the notes are no object", offset=at, field="notes", expected="{...}", found=type(notes).__name__)
    return notes


def _open_bare(source: Source, dim: int, lenient: bool) -> Collection:
    """A file of the first programs: float32 rows and nothing else."""
    width = 4 * dim
    n, rest = divmod(source.size, width)
    if rest and not lenient:
        raise Truncated(
            f"the file ends inside row {n}",
            offset=source.size - rest,
            field="rows",
            expected=f"a multiple of {width} bytes",
            found=f"{source.size} bytes",
            remedy="say another dimension, or take the whole rows that exist with --lenient (lenient=True)",
        )
    extent = Extent(0, n, 0, n * width, Raw(DTYPES[0]))
    column = FileColumn("vectors", source, [extent], row_shape=(dim,), encoding="raw")
    notes = [f"the file is cut short: {n} whole rows are read"] if rest else []
    return Collection({"vectors": column}, notes=notes)


def _dtype(collection: Collection, options: WriteOptions) -> np.dtype[Any]:
    """What the rows are written as: float16 where that was asked for or is what they are."""
    half = options.encoding == "float16" or options.variant == "float16" or collection.vectors.dtype == np.float16
    return DTYPES[half]


FORMAT = Vmat()
