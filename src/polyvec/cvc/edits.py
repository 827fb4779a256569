"""Column edits of CVC files: the bytes of untouched columns are copied, and the file is replaced atomically.

Sections, chunk metadata and keys nobody knows stay as they are. A chunk is checked before its bytes are copied, so
that a damaged file never comes out with fresh checksums.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from polyvec.core.blocks import Array, Extent
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.core.sidecars import drop_sidecars, keep_sidecars
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source, open_source
from polyvec.core.targets import open_sink
from polyvec.formats.cvc import FORMAT, check_chunk
from polyvec.formats.cvc.encoding import Target, choose, declared, widest, write_piece
from polyvec.formats.cvc.header import read_header
from polyvec.formats.cvc.structure import Chunk, Header, Json
from polyvec.formats.cvc.writer import WIDE_COUNT, ChunkWriter
from polyvec.writing.readback import check_shapes

Path = str | os.PathLike[str]
Declared = list[tuple[Json, str | None, "New | None"]]  # JSON of a column, the name it had, its new data


class New:
    """A column that comes from memory."""

    def __init__(self, name: str, data: Array, compression: str | None, rows: int) -> None:
        array = np.asarray(data)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]  # a columnar file knows no difference
        if array.ndim not in (1, 2) or len(array) != rows:
            raise InputError(
                f"column {name!r} must have {rows} rows, one a vector of the file, not shape {array.shape}"
            )
        self.column = ArrayColumn(name, array)
        self.target: Target = choose(self.column, compression or default_compression(array), columnar=True)


def default_compression(array: Array) -> str:
    """fp16 for floats, none for whole numbers."""
    return "fp16" if array.dtype.kind in "fV" else "none"


def add_column(
    path: Path, column_name: str, data: Array, compression: str | None = None, output_path: Path | None = None
) -> None:
    """Add a column of ``(rows,)`` or ``(rows, dim)``; floats are stored as fp16 unless ``compression`` differs."""

    def change(columns: Declared, header: Header) -> Declared:
        if column_name in [json["name"] for json, _, _ in columns]:
            raise InputError(f"column {column_name!r} exists already; use update_column")
        new = New(column_name, data, compression, header.rows)
        return [*columns, (declared(new.target), None, new)]

    edit(path, output_path, change)


def update_column(
    path: Path, column_name: str, data: Array, compression: str | None = None, output_path: Path | None = None
) -> None:
    """Replace the values of a column; its compression stays unless another is given."""

    def change(columns: Declared, header: Header) -> Declared:
        require(header, column_name)
        array = np.asarray(data)
        kept = header.spec(column_name).compression
        if compression is None and (kept == "none") != (default_compression(array) == "none"):
            kept = "none" if array.dtype.kind not in "fV" else kept
        new = New(column_name, array, compression or kept, header.rows)
        return [
            ((json | declared(new.target), None, new) if json["name"] == column_name else (json, name, old))
            for json, name, old in columns
        ]

    edit(path, output_path, change)


def delete_column(path: Path, column_name: str, output_path: Path | None = None) -> None:
    """Remove a column; the last one stays."""

    def change(columns: Declared, header: Header) -> Declared:
        require(header, column_name)
        if len(columns) == 1:
            raise InputError(f"column {column_name!r} is the only one; a file needs at least one column")
        return [column for column in columns if column[0]["name"] != column_name]

    edit(path, output_path, change)


def rename_column(path: Path, old_name: str, new_name: str, output_path: Path | None = None) -> None:
    """Give a column another name; no payload byte changes."""

    def change(columns: Declared, header: Header) -> Declared:
        require(header, old_name)
        if new_name in [json["name"] for json, _, _ in columns]:
            raise InputError(f"column {new_name!r} exists already; choose another name")
        return [
            (json | {"name": new_name} if json["name"] == old_name else json, name, new) for json, name, new in columns
        ]

    edit(path, output_path, change)


def require(header: Header, name: str) -> None:
    """`InputError` unless the file has the column."""
    try:
        header.spec(name)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None


def edit(path: Path, output_path: Path | None, change: Callable[[Declared, Header], Declared]) -> None:
    """Rewrite a columnar file with changed columns."""
    with open_source(path) as source:
        header = read_header(source)
        if not header.columnar:
            raise InputError(
                f"{os.fspath(path)}: the file has one column and no names; write it with pack_cvc_columns first"
            )
        columns = change([(dict(json), json["name"], None) for json in header.json["columns"]], header)
        inputs = [] if output_path is None else [path]
        with open_sink(path if output_path is None else output_path, inputs=inputs) as sink:
            rewrite(source, header, sink, columns=columns)
            check_names(sink, header.rows, [json["name"] for json, _, _ in columns])
            if output_path is None:
                keep_sidecars(sink, source)
            else:
                drop_sidecars(sink)


def upgrade(path: Path, output_path: Path) -> Header:
    """Rewrite a file in the versioned layout, payloads copied, checksums added; returns the header read."""
    with open_source(path) as source:
        header = read_header(source)
        with open_sink(output_path, inputs=[path], overwrite=False) as sink:
            drop_sidecars(sink)
            layout = replace(header, layout="versioned", version=(2, 0) if header.columnar else (1, 0))
            rewrite(source, layout, sink)
            check_names(sink, header.rows, [spec.name for spec in header.columns])
        return header


def check_names(sink: Sink, rows: int, names: list[str]) -> None:
    """`LossyConversion` unless what a sink holds reads back with these columns and rows; nothing is committed before."""
    with sink.source() as source:
        shapes = {spec.name: (rows, *spec.row_shape) for spec in read_header(source).columns}
    check_shapes(sink, FORMAT, {name: shapes.get(name, (rows,)) for name in names})


def rewrite(source: Source, header: Header, sink: Sink, *, columns: Declared | None = None) -> None:
    """Write a file anew in the layout that ``header`` states, with other columns where they are given."""
    kept = {key: value for key, value in header.json.items() if key != "chunks"}
    if columns is not None:
        kept["columns"] = [json for json, _, _ in columns]
    entries = [_entry(chunk, columns) for chunk in header.chunks]
    version = header.version if header.version[0] else (2, 0) if header.columnar else (1, 0)
    with ChunkWriter(
        sink,
        kept,
        layout=header.layout,
        version=version,
        mapped=header.mapped,
        chunks=[_wide(entry, columns) for entry in entries],
    ) as writer:
        for chunk, entry in zip(header.chunks, entries):
            check_chunk(source, chunk)
            writer.begin(entry)
            if columns is None:
                _copy_chunk(writer, source, chunk, entry)
                continue
            rows = range(chunk.start, chunk.start + chunk.rows)
            places = entry["columns"]
            for json, old, new in columns:
                place = places[json["name"]]
                writer.part(place)
                if new is not None:
                    write_piece(writer, place, new.column, rows, new.target)
                elif old is not None:
                    piece = chunk.pieces[old]
                    writer.copy(source, piece.offset, piece.size, piece.crc)


def _copy_chunk(writer: ChunkWriter, source: Source, chunk: Chunk, entry: Json) -> None:
    """A whole chunk as it lies: columns keep their offsets."""
    whole = Extent(
        chunk.start, chunk.rows, chunk.payload, chunk.size, next(iter(chunk.pieces.values())).codec, chunk.crc
    )
    writer.part()
    writer.copy(source, whole.offset, whole.size, whole.crc)


def _entry(chunk: Chunk, columns: Declared | None) -> Json:
    entry: dict[str, Any] = {k: v for k, v in chunk.entry.items() if k not in ("crc32", "file_offset")}
    if columns is not None:
        old_places = entry.pop("columns")
        entry["columns"] = {json["name"]: dict(old_places[old]) if old is not None else {} for json, old, _ in columns}
    return entry


def _wide(entry: Json, columns: Declared | None) -> Json:
    if columns is None:
        return entry
    counts = {"offset": WIDE_COUNT, "size": WIDE_COUNT, "crc32": WIDE_COUNT}
    places = {
        json["name"]: (widest(new.target, True) if new is not None else entry["columns"][json["name"]]) | counts
        for json, _, new in columns
    }
    return entry | {"columns": places}
