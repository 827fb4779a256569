"""CVC: compressed vector collections, in chunks, with one column or many.

::

    document layout     "CVCF", u32 header_len, JSON, then for each chunk: u32 length, payload
    versioned layout    "CVCF", u16 major, u16 minor, u32 header_len, JSON, then for each chunk:
                        u32 length, u32 CRC-32 of the payload, payload     (1.0 one column, 2.0 columnar)

    JSON, one column    {num_vectors, dimension, compression, chunks: [{rows, compression?, min?, scale?}], sections?}
    JSON, columnar      {format_type: "columnar", num_vectors, columns: [{name, dimension, dtype, compression}],
                         chunks: [{rows, columns: {name: {offset, size, compression, min?, scale?}}}], sections?}
    mmap_optimized      each chunk also has file_offset, absolute and page-aligned, of its length word

    fp16      C-order <f2                     int8    uint8 codes; value = code * scale + min, in float32, two roundings
    none      the values of the column's dtype        lossless    byte planes, see polyvec.codecs.planes

All numbers are little endian. We also write, and check, ``crc32``: in the chunk's JSON of the document layout, and for
each column of a chunk in columnar files, so that one column can be checked without reading the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from polyvec.core.arguments import check_out
from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.dtypes import BFLOAT16
from polyvec.core.errors import Corrupt, InputError
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.reading import load_extents
from polyvec.core.records import RunRecords
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.cvc import encoding
from polyvec.formats.cvc.encoding import ENCODINGS, NAMES, Sections, Target
from polyvec.formats.cvc.header import read_header
from polyvec.formats.cvc.structure import DOCUMENT, DTYPES, MAGIC, VERSIONED, Chunk, Header, Json
from polyvec.formats.cvc.writer import ChunkWriter
from polyvec.kernels.checksum import crc32

MAX_SECTIONS = 4096  # beyond, records are no sections any more: they go beside the file, one line a row
KNOWN_KEYS = frozenset(
    {
        "num_vectors",
        "dimension",
        "compression",
        "chunks",
        "sections",
        "columns",
        "format_type",
        "mmap_optimized",
        "metadata",
    }
)
LAYOUT = Option(
    "layout",
    str,
    "The header: as the document has it, or versioned; versioned where columns or sections need it.",
    ("document", "versioned"),
)
MMAP_OPTIMIZED = Option(
    "mmap_optimized", bool, "Rows lie where a mapping of the file can be read as they are.", (), False
)
ALLOW_OVERFLOW = Option("allow_overflow", bool, "Values beyond float16 become infinite and are no error.", (), False)
SHOWN_CHUNKS = 1000


class ChunkRecords(RunRecords):
    """Records that are the metadata of whole chunks."""


class CvcColumn(FileColumn):
    """A column of a CVC file. Whole reads run on several threads."""

    def __init__(self, header: Header, name: str, source: Source) -> None:
        extents = header.extents(name)
        spec = header.spec(name)
        dtypes = {extent.codec.dtype for extent in extents} or {np.dtype(np.float32)}
        names = {NAMES.get(encoding.compression_of(extent.codec, True) or "", "raw") for extent in extents}
        names = names or {NAMES[spec.compression]}
        super().__init__(
            name,
            source,
            extents,
            row_shape=spec.row_shape,
            dtype=dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32),
            encoding=names.pop() if len(names) == 1 else "mixed",
        )
        self.header = header
        self._checked: set[int] = set()
        self._last: tuple[Extent, Array] | None = None

    def _read(self, start: int, stop: int, out: Array | None = None) -> Array:
        shape = (stop - start, *self.row_shape)
        if out is None:
            out = np.empty(shape, self.dtype)
        else:
            check_out(out, shape, self.dtype)
        extents = list(self.extents(start, stop))
        only = extents[0] if len(extents) == 1 else None
        if only is not None and self._is_whole(only) and only.rows > stop - start and self._fits(only):
            out[:] = self._decoded(only)[start - only.start : stop - only.start]
            return out
        for failure in load_extents(self.source, extents, self.row_shape, out, start=start, check=self.check):
            raise failure.error
        return out

    def _take(self, indices: Array) -> Array:
        """Rows by index; of chunks that can only be decoded whole each is decoded once."""
        if not any(map(self._is_whole, self._extents)):
            return super()._take(indices)
        out = np.empty((len(indices), *self.row_shape), self.dtype)
        owners = np.searchsorted(self._starts, indices, side="right") - 1
        for owner in np.unique(owners):
            extent, places = self._extents[owner], np.flatnonzero(owners == owner)
            if self._is_whole(extent):
                out[places] = self._decoded(extent)[indices[places] - extent.start]
            else:
                out[places] = super()._take(indices[places])
        return out

    def _is_whole(self, extent: Extent) -> bool:
        return extent.codec.row_bytes(self.row_shape) is None

    def _fits(self, extent: Extent) -> bool:
        return extent.rows * prod(self.row_shape) * self.dtype.itemsize <= MAX_BLOCK_BYTES

    def _decoded(self, extent: Extent) -> Array:
        """A chunk that can only be decoded whole. The last one, where it is small, is kept for its other rows."""
        last = self._last
        if last is not None and last[0] == extent:
            return last[1]
        rows = np.empty((extent.rows, *self.row_shape), self.dtype)
        for failure in load_extents(self.source, [extent], self.row_shape, rows, start=extent.start, check=self.check):
            raise failure.error
        self._last = (extent, rows) if self._fits(extent) else None
        return rows

    def check_chunks(self, start: int, stop: int) -> None:
        """Check the chunks of some rows whose columns have no checksums of their own: before their bytes are copied."""
        for chunk in self.header.chunks_of(start, stop):
            if chunk.pieces[self.name].crc is None and chunk.index not in self._checked:
                check_chunk(self.source, chunk)
                self._checked.add(chunk.index)


class Cvc(Format):
    """Compressed vector collections."""

    name = "cvc"
    title = "CVC, compressed vector collections"
    suffixes = (".cvc",)
    holds = Holds(
        many_columns=True,
        records=True,
        metadata=True,
        encodings=("raw", "float16", "bfloat16", "int8", "lossless"),
        dtypes=(*map(np.dtype, DTYPES), BFLOAT16),
    )
    options = (LAYOUT, MMAP_OPTIMIZED, ALLOW_OVERFLOW)
    checksummed = True

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, "it starts with CVCF")]
        return [Match(Confidence.SUFFIX, "suffix .cvc; it does not start with CVCF")] if peek.suffix == ".cvc" else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        return self._collect(read_header(source), source)

    def _collect(self, header: Header, source: Source) -> Collection:
        columns: dict[str, Column] = {spec.name: CvcColumn(header, spec.name, source) for spec in header.columns}
        return Collection(columns, records=read_records(header), metadata=read_metadata(header), notes=header.notes)

    # -- writing

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        if collection.records is None or isinstance(collection.records, ChunkRecords):
            return self.holds
        few = len(list(islice(collection.records.runs(), MAX_SECTIONS + 1))) <= MAX_SECTIONS
        return self.holds if few else replace(self.holds, records=False)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        targets = choose_targets(collection, options)
        return NAMES[targets[0].spec.compression]

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        targets = choose_targets(collection, options)
        runs: list[tuple[int, int, Mapping[str, Any]]] = []
        metadata: list[Json] | None = None
        chunks = encoding.partition(collection.columns, targets, options.chunk_rows, collection.format == self.name)
        if collection.records is not None and self.holding(collection, options).records:
            runs = [run for run in collection.records.runs() if run[2]]
            edges = {start for start, _, _ in collection.records.runs()}
            if isinstance(collection.records, ChunkRecords) and edges <= {chunk.start for chunk in chunks}:
                metadata, runs = [dict(collection.records[chunk.start]) for chunk in chunks], []
        write_file(collection, sink, targets, chunks, sections=runs, chunk_metadata=metadata, options=options)

    # -- checking

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        header = read_header(source)
        for note in header.notes:
            yield Finding("warning", note, offset=header.end)
        if any(chunk.crc is None for chunk in header.chunks):
            yield Finding("note", "chunks have no checksums; convert the file to add them", field="crc32")
        failed = False
        for chunk in header.chunks:
            try:
                check_chunk(source, chunk)
            except Corrupt as error:
                failed = True
                yield Finding.of(error)
        yield from check_sections(header)
        if not failed:
            yield from check_rows(self._collect(header, source))

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        header = read_header(source)
        return all(
            chunk.crc is not None or all(piece.crc is not None for piece in chunk.pieces.values())
            for chunk in header.chunks
        )

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        header = read_header(source)
        prelude = VERSIONED if header.layout == "versioned" else DOCUMENT
        spans = prelude.spans(0, prelude.read(source) | {"magic": MAGIC.decode()})
        columns = ", ".join(spec.name for spec in header.columns)
        spans.append(Span(header.json_offset, header.header_len, "header", f"JSON: {header.rows} rows of {columns}"))
        at = header.json_offset + header.header_len
        for chunk in header.chunks[:SHOWN_CHUNKS]:
            if chunk.offset > at:
                spans.append(Span(at, chunk.offset - at, "padding"))
            values = header.chunk_words.read(source, chunk.offset)
            spans += [
                replace(span, name=f"chunks[{chunk.index}].{span.name.split('.')[-1]}")
                for span in header.chunk_words.spans(chunk.offset, values)
            ]
            for name, piece in sorted(chunk.pieces.items(), key=lambda pair: pair[1].offset):
                kind = encoding.compression_of(piece.codec, True)
                spans.append(
                    Span(piece.offset, piece.size, f"chunks[{chunk.index}].{name}", f"{chunk.rows} rows, {kind}")
                )
            at = chunk.payload + chunk.size
        if len(header.chunks) > SHOWN_CHUNKS:
            left = len(header.chunks) - SHOWN_CHUNKS
            spans.append(Span(at, header.end - at, "chunks", f"{left} more"))
        if header.end < source.size:
            spans.append(Span(header.end, source.size - header.end, "extra", "not part of the format"))
        return spans


def read_records(header: Header) -> RunRecords | None:
    """The sections as records; else the metadata of chunks."""
    if header.sections:
        return RunRecords([(s.start, s.stop, s.metadata) for s in header.sections], header.rows)
    if any(isinstance(chunk.entry.get("metadata"), dict) for chunk in header.chunks):
        runs = [(c.start, c.start + c.rows, c.entry.get("metadata") or {}) for c in header.chunks if c.rows]
        return ChunkRecords(runs, header.rows)
    return None


def read_metadata(header: Header) -> Json:
    """What the header holds beyond the format's own keys, and what stands under ``metadata``."""
    nested = header.json.get("metadata")
    found = {key: value for key, value in header.json.items() if key not in KNOWN_KEYS}
    return found | (nested if isinstance(nested, dict) else {})


def write_metadata(metadata: Mapping[str, Any]) -> Json:
    """Metadata as header keys; those whose names the format uses go under ``metadata``."""
    own = {key: value for key, value in metadata.items() if key in KNOWN_KEYS}
    return {key: value for key, value in metadata.items() if key not in own} | ({"metadata": own} if own else {})


def choose_targets(collection: Collection, options: WriteOptions) -> list[Target]:
    """How each column will be written."""
    columns = collection.columns
    if len({column.rows for column in columns.values()}) > 1:
        shapes = ", ".join(f"{name} ({column.rows} rows)" for name, column in columns.items())
        raise InputError(f"the columns of a CVC file have one length, not {shapes}; choose one with --column (column=)")
    asked = ENCODINGS[options.encoding] if options.encoding else None
    own = collection.format == "cvc"
    columnar = len(columns) > 1 or (own and collection.main != "vectors") or not collection.vectors.row_shape
    if not columnar:
        only = encoding.choose(
            collection.vectors, asked, columnar=False, own=own, allow_overflow=ALLOW_OVERFLOW.of(options.own)
        )
        if only.spec.compression != "none" or only.spec.dtype == np.float32:
            return [only]
    targets = []
    # The main column is the first one: that is how readers know it. The encoding asked for is its own alone.
    for name in (collection.main, *(name for name in columns if name != collection.main)):
        found = encoding.choose(
            columns[name],
            asked if name == collection.main else None,
            columnar=True,
            own=own,
            allow_overflow=ALLOW_OVERFLOW.of(options.own),
        )
        targets.append(replace(found, spec=replace(found.spec, name=name)))
    return targets


def is_columnar(targets: Sequence[Target]) -> bool:
    """Whether targets need the columnar form: several, single values, or values that are no float32."""
    spec = targets[0].spec
    plain = bool(spec.row_shape) and (spec.compression != "none" or spec.dtype == np.float32)
    return len(targets) > 1 or not plain


def write_file(
    collection: Collection,
    sink: Sink,
    targets: Sequence[Target],
    chunks: Sequence[range],
    *,
    sections: Sequence[tuple[int, int, Mapping[str, Any]]] = (),
    chunk_metadata: Sequence[Json] | None = None,
    options: WriteOptions,
    columnar: bool | None = None,
) -> None:
    """Write a collection in the chunks given; ``columnar`` None takes that form only where it is needed."""
    columnar = columnar or is_columnar(targets) or (collection.format == "cvc" and collection.main != "vectors")
    mapped = MMAP_OPTIMIZED.of(options.own)
    layout = LAYOUT.of(options.own) or ("versioned" if columnar or mapped or sections or chunk_metadata else "document")
    found = Sections(sections)
    entries = [_entry(chunk, found, chunk_metadata[i] if chunk_metadata else None) for i, chunk in enumerate(chunks)]
    widest = [entry | _widest(targets, columnar) for entry in entries]
    header = file_header(targets, columnar=columnar, mapped=mapped) | write_metadata(collection.metadata)
    if sections:
        header["sections"] = found.header()
    done = 0

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        if options.progress:
            options.progress(done // len(targets), collection.rows)

    with ChunkWriter(
        sink, header, layout=layout, version=(2, 0) if columnar else (1, 0), mapped=mapped, chunks=widest
    ) as writer:
        for chunk, entry in zip(chunks, entries):
            write_chunk(writer, entry, collection.columns, chunk, targets, columnar=columnar, progress=count)


def file_header(targets: Sequence[Target], *, columnar: bool, mapped: bool) -> Json:
    """The header of a new file, without its rows, chunks and sections."""
    if columnar:
        header: Json = {"format_type": "columnar", "num_vectors": 0, "columns": [encoding.declared(t) for t in targets]}
    else:
        header = {"num_vectors": 0, "dimension": targets[0].spec.dimension, "compression": targets[0].spec.compression}
    return header | ({"mmap_optimized": True} if mapped else {})


def write_chunk(
    writer: ChunkWriter,
    entry: Json,
    columns: Mapping[str, Column],
    rows: range,
    targets: Sequence[Target],
    *,
    columnar: bool,
    progress: Any = None,
) -> None:
    """Write one chunk: every target's rows, and what the entry then says of them."""
    writer.begin(entry)
    for target in targets:
        column = columns[target.spec.name] if columnar else next(iter(columns.values()))
        if isinstance(column, CvcColumn):
            column.check_chunks(rows.start, rows.stop)
        if columnar:
            place: Json = {}
            entry.setdefault("columns", {})[target.spec.name] = place
            writer.part(place)
            encoding.write_piece(writer, place, column, rows, target, progress)
        else:
            writer.part()
            encoding.write_piece(writer, entry, column, rows, target, progress)


def _entry(rows: range, sections: Sections, metadata: Json | None) -> Json:
    entry: Json = {"rows": len(rows)}
    inside = sections.inside(rows)
    return entry | ({"sections": inside} if inside else {}) | ({"metadata": metadata} if metadata else {})


def _widest(targets: Sequence[Target], columnar: bool) -> Json:
    if columnar:
        return {"columns": {t.spec.name: encoding.widest(t, True) for t in targets}}
    return encoding.widest(targets[0], False)


def check_chunk(source: Source, chunk: Chunk) -> None:
    """`Corrupt` unless a chunk's payload, and each column in it, is what was summed."""
    whole = Extent(
        chunk.start, chunk.rows, chunk.payload, chunk.size, next(iter(chunk.pieces.values())).codec, chunk.crc
    )
    parts = [whole] if chunk.crc is not None else []
    parts += [piece for piece in chunk.pieces.values() if piece.crc is not None and piece.size != chunk.size]
    for part in parts:
        found, at, end = 0, part.offset, part.offset + part.size
        while at < end:
            data = source.read_at(at, min(4 << 20, end - at))
            found = crc32(data, found)
            at += len(data) or end
        if found != part.crc:
            raise Corrupt(
                f"rows {chunk.start} to {chunk.start + chunk.rows - 1} (chunk {chunk.index}) fail their checksum",
                path=source.label,
                offset=part.offset,
                field="crc32",
                expected=f"{part.crc:#010x}",
                found=f"{found:#010x}",
                remedy="restore the file from its source",
            )


def check_sections(header: Header) -> Iterator[Finding]:
    """Warnings where the chunks and the header tell different sections."""
    if "sections" not in header.json:
        return
    expected = Sections([(s.start, s.stop, s.metadata) for s in header.sections if s.stop > s.start])
    for chunk in header.chunks:
        stated = chunk.entry.get("sections")
        if stated is not None and stated != expected.inside(range(chunk.start, chunk.start + chunk.rows)):
            yield Finding(
                "warning",
                f"chunk {chunk.index} tells other sections than the header",
                offset=header.json_offset,
                field=f"chunks[{chunk.index}].sections",
            )


FORMAT = Cvc()
