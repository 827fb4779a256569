"""Packing CVC files: an array, columns, sections, or a stream of arrays whose end is not known."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import InputError
from polyvec.core.format import WriteOptions
from polyvec.core.sidecars import drop_sidecars
from polyvec.core.targets import open_sink
from polyvec.core.views import ConcatColumn
from polyvec.cvc.edits import default_compression
from polyvec.formats.cvc import FORMAT, LAYOUT, file_header, is_columnar, write_chunk, write_file
from polyvec.formats.cvc.encoding import CHUNK_ROWS, Target, check_compression, choose, most_rows, partition
from polyvec.formats.cvc.writer import ChunkWriter
from polyvec.writing.readback import check_collection, check_shapes

Path = str | os.PathLike[str]
Metadata = Mapping[str, Any]


def pack_cvc(
    vectors: Array | Collection | Iterable[Array],
    output_path: Path,
    compression: str = "fp16",
    chunk_size: int = CHUNK_ROWS,
    chunk_metadata: Sequence[Metadata] | None = None,
    mmap_optimized: bool = False,
    *,
    layout: str | None = None,
    allow_overflow: bool = False,
    durable: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Pack vectors into a file, which is replaced atomically.

    ``vectors`` is a ``(rows, dimension)`` array, a collection (its main column), or an iterator of such arrays, which
    is streamed: no more than a chunk is held. ``compression`` is fp16, int8, lossless, none or bfloat16; values that
    float16 cannot hold are refused unless ``allow_overflow``, and NaN and infinity are refused with int8.
    ``chunk_metadata`` is one mapping a chunk. Plain files have the document layout, all others the versioned one,
    unless ``layout`` says otherwise; ``durable=False`` does not wait for the disk.
    """
    check_compression(compression)
    own = _own(layout, mmap_optimized, allow_overflow)
    rows = _chunk_rows(chunk_size)
    if (
        not isinstance(vectors, (Collection, Column))
        and not hasattr(vectors, "shape")
        and not isinstance(vectors, list)
    ):
        _pack_stream(iter(vectors), output_path, compression, rows, chunk_metadata, own, durable)
        return
    if isinstance(vectors, Collection):
        column: Column = vectors.vectors
        inputs = [str(place) for place in vectors.places]
    else:
        column, inputs = _column("vectors", vectors), []
    targets = [replace(choose(column, compression, columnar=False), allow_overflow=allow_overflow)]
    collection = Collection({"vectors": column})
    chunks = partition(collection.columns, targets, rows, False)
    metadata = _per_chunk(chunk_metadata, len(chunks))
    with open_sink(output_path, inputs=inputs, durable=durable) as sink:
        drop_sidecars(sink)
        write_file(
            collection, sink, targets, chunks, chunk_metadata=metadata, options=WriteOptions(own=own, progress=progress)
        )
        check_collection(sink, FORMAT, collection)


def pack_cvc_sections(
    sections: Iterable[tuple[Array, Metadata]],
    output_path: Path,
    compression: str = "fp16",
    chunk_size: int = CHUNK_ROWS,
    *,
    mmap_optimized: bool = False,
    layout: str | None = None,
    allow_overflow: bool = False,
    durable: bool = True,
) -> None:
    """Pack ``(array, metadata)`` pairs one after the other; `load_cvc_range` finds them by their metadata."""
    check_compression(compression)
    pairs = list(sections)
    if not pairs:
        raise InputError("there are no sections; give at least one (array, metadata) pair")
    column = _joined("vectors", [array for array, _ in pairs])
    target = replace(choose(column, compression, columnar=False), allow_overflow=allow_overflow)
    _write(
        {"vectors": column},
        [target],
        output_path,
        chunk_size,
        _spans(pairs, [len(a) for a, _ in pairs]),
        _own(layout, mmap_optimized, allow_overflow),
        durable,
        columnar=False,
    )


def pack_cvc_columns(
    data: Mapping[str, Array],
    output_path: Path,
    compressions: Mapping[str, str] | None = None,
    chunk_size: int = CHUNK_ROWS,
    *,
    mmap_optimized: bool = False,
    layout: str | None = None,
    allow_overflow: bool = False,
    durable: bool = True,
) -> None:
    """Pack named columns of one length, each with its own dimension, dtype and compression.

    Floats are stored as fp16 and whole numbers as they are (``none``), unless ``compressions`` says otherwise.
    """
    columns = {name: _column(name, array, flat=True) for name, array in data.items()}
    targets = _targets(columns, compressions, allow_overflow)
    _write(
        columns,
        targets,
        output_path,
        chunk_size,
        [],
        _own(layout, mmap_optimized, allow_overflow),
        durable,
        columnar=True,
    )


def pack_cvc_sections_columnar(
    sections: Iterable[tuple[Mapping[str, Array], Metadata]],
    output_path: Path,
    compressions: Mapping[str, str] | None = None,
    chunk_size: int = CHUNK_ROWS,
    *,
    mmap_optimized: bool = False,
    layout: str | None = None,
    allow_overflow: bool = False,
    durable: bool = True,
) -> None:
    """Pack ``(columns, metadata)`` pairs one after the other; all have the same columns."""
    pairs = list(sections)
    if not pairs:
        raise InputError("there are no sections; give at least one (columns, metadata) pair")
    names = list(pairs[0][0])
    for number, (data, _) in enumerate(pairs):
        if set(data) != set(names):
            raise InputError(
                f"section {number} has columns {sorted(data)}, section 0 {sorted(names)}; give all the same"
            )
        lengths = {name: len(array) for name, array in data.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"section {number} has columns of different length: {lengths}")
    columns: dict[str, Column] = {name: _joined(name, [data[name] for data, _ in pairs], flat=True) for name in names}
    targets = _targets(columns, compressions, allow_overflow)
    spans = _spans(pairs, [len(data[names[0]]) for data, _ in pairs])
    _write(
        columns,
        targets,
        output_path,
        chunk_size,
        spans,
        _own(layout, mmap_optimized, allow_overflow),
        durable,
        columnar=True,
    )


def _write(
    columns: Mapping[str, Column],
    targets: Sequence[Target],
    path: Path,
    chunk_size: int,
    sections: Sequence[tuple[int, int, Metadata]],
    own: Mapping[str, Any],
    durable: bool,
    *,
    columnar: bool,
) -> None:
    lengths = {name: column.rows for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns have different lengths: {lengths}; give every column the same rows")
    collection = Collection(columns)
    chunks = partition(columns, targets, _chunk_rows(chunk_size), False)
    with open_sink(path, durable=durable) as sink:
        drop_sidecars(sink)
        write_file(
            collection, sink, targets, chunks, sections=sections, options=WriteOptions(own=own), columnar=columnar
        )
        check_collection(sink, FORMAT, collection)


def _pack_stream(
    arrays: Iterator[Array],
    path: Path,
    compression: str,
    chunk_rows: int,
    metadata: Sequence[Metadata] | None,
    own: Mapping[str, Any],
    durable: bool,
) -> None:
    """Arrays as they come, in chunks: one chunk is held, and the header finds its place at the end."""
    first = next(arrays, None)
    if first is None:
        raise InputError("the iterator gave no array; give at least one, if only of 0 rows")
    start = _column("vectors", first)
    target = replace(choose(start, compression, columnar=False), allow_overflow=bool(own.get("allow_overflow")))
    rows = min(chunk_rows, most_rows([target]))
    columnar = is_columnar([target])
    mapped = bool(own.get("mmap_optimized"))
    layout = own.get("layout") or ("versioned" if columnar or mapped or metadata is not None else "document")
    done = total = 0
    with open_sink(path, durable=durable) as sink:
        drop_sidecars(sink)
        with ChunkWriter(
            sink,
            file_header([target], columnar=columnar, mapped=mapped),
            layout=layout,
            version=(2, 0) if columnar else (1, 0),
            mapped=mapped,
            chunks=None,
        ) as writer:
            for number, chunk in enumerate(_rechunked(chain([first], arrays), rows, start)):
                entry: dict[str, Any] = {"rows": len(chunk)}
                if metadata is not None:
                    if number >= len(metadata):
                        raise InputError(
                            f"chunk_metadata has {len(metadata)} entries and the stream more chunks; give one a chunk"
                        )
                    entry["metadata"] = dict(metadata[number])
                column = ArrayColumn("vectors", chunk)
                write_chunk(writer, entry, {"vectors": column}, range(len(chunk)), [target], columnar=columnar)
                writer.settle()  # the chunk's buffer is filled again
                done += 1
                total += len(chunk)
            if metadata is not None and len(metadata) != done:
                raise InputError(f"chunk_metadata has {len(metadata)} entries for {done} chunks; give one a chunk")
        check_shapes(sink, FORMAT, {"vectors": (total, *start.row_shape)})


def _rechunked(arrays: Iterable[Array], rows: int, like: Column) -> Iterator[Array]:
    """Arrays of exactly ``rows`` rows but for the last, without a copy where one comes that large."""
    buffer: Array | None = None
    held = 0
    for array in arrays:
        column = _column("vectors", array)
        if column.row_shape != like.row_shape or column.dtype != like.dtype:
            raise InputError(
                f"an array of {column.row_shape} {column.dtype} follows arrays of {like.row_shape} {like.dtype}"
            )
        piece = np.asarray(array)
        at = 0
        while at < len(piece):
            if not held and len(piece) - at >= rows:
                yield piece[at : at + rows]
                at += rows
                continue
            if buffer is None:
                buffer = np.empty((rows, *like.row_shape), like.dtype)
            step = min(rows - held, len(piece) - at)
            buffer[held : held + step] = piece[at : at + step]
            held, at = held + step, at + step
            if held == rows:
                yield buffer
                held = 0
    if held and buffer is not None:
        yield buffer[:held]


def _column(name: str, data: Any, *, flat: bool = False) -> Column:
    """An array as a column of rows; with ``flat`` single values a row may come without their dimension."""
    if isinstance(data, Column):
        return data
    array = np.asarray(data)
    able = array.ndim == 2 or (flat and array.ndim == 1)
    if not able or array.dtype.kind not in "fiubV" or array.dtype.hasobject:
        raise InputError(
            f"{name}: expected numbers of shape (rows, dimension), found shape {array.shape} of {array.dtype}"
        )
    if flat and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a columnar file knows no difference
    return ArrayColumn(name, array)


def _joined(name: str, arrays: Sequence[Array], *, flat: bool = False) -> Column:
    columns = [_column(name, array, flat=flat) for array in arrays]
    kinds = {(column.row_shape, column.dtype.str) for column in columns}
    if len(kinds) > 1:
        raise InputError(f"{name}: sections differ in dimension or dtype: {sorted(map(str, kinds))}; give all the same")
    return ConcatColumn(name, columns)


def _targets(
    columns: Mapping[str, Column], compressions: Mapping[str, str] | None, allow_overflow: bool
) -> list[Target]:
    if not columns:
        raise InputError("there are no columns; give at least one")
    unknown = set(compressions or {}) - set(columns)
    if unknown:
        raise InputError(f"compressions names no column {sorted(unknown)}; there are {', '.join(columns)}")
    return [
        replace(
            choose(column, (compressions or {}).get(name) or _usual(column), columnar=True),
            allow_overflow=allow_overflow,
        )
        for name, column in columns.items()
    ]


def _usual(column: Column) -> str:
    return default_compression(np.empty(0, column.dtype))


def _spans(pairs: Sequence[tuple[Any, Metadata]], lengths: Sequence[int]) -> list[tuple[int, int, Metadata]]:
    spans, at = [], 0
    for (_, metadata), rows in zip(pairs, lengths):
        if not isinstance(metadata, Mapping):
            raise InputError(f"a section's metadata must be a mapping, not {type(metadata).__name__}")
        spans.append((at, at + rows, metadata))
        at += rows
    return spans


def _per_chunk(metadata: Sequence[Metadata] | None, chunks: int) -> list[dict[str, Any]] | None:
    if metadata is None:
        return None
    if len(metadata) != chunks:
        raise InputError(f"chunk_metadata has {len(metadata)} entries for {chunks} chunks; give one a chunk")
    return [dict(entry) for entry in metadata]


def _chunk_rows(chunk_size: int) -> int:
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, (int, np.integer)) or chunk_size < 1:
        raise InputError(f"chunk_size must be a whole number of at least 1 row, not {chunk_size!r}")
    return int(chunk_size)


def _own(layout: str | None, mapped: bool, allow_overflow: bool) -> dict[str, Any]:
    return {
        "layout": None if layout is None else LAYOUT.value(layout),
        "mmap_optimized": mapped,
        "allow_overflow": allow_overflow,
    }
