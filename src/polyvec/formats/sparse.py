"""Sparse matrices of big-ann's sparse track: .csr, .spmat.

::

    offset 0    i64 nrow, i64 ncol, i64 nnz
    offset 24   i64 indptr[nrow + 1]    where each row starts in what follows; from 0 up to nnz
    then        i32 indices[nnz]        columns, below ncol
    then        f32 data[nnz]           their values

The collection has these three as columns, with the shape in its metadata, and before them ``vectors``: the same matrix
in dense rows, made as they are read. Targets of one column take it when asked (``--column vectors``); targets
of many take the three parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.codecs import Raw, transcode
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Block, Extent, rows_per_block
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source

HEADER = Record("header", nrow="i8", ncol="i8", nnz="i8")
MAX_COLUMNS = 2**31 - 1  # an index is an i32
PARTS = {"indptr": "<i8", "indices": "<i4", "data": "<f4"}
MAX_RATIO = 4096  # dense bytes for a stored one; real matrices have up to 200, and a lying ncol is worth nothing
FREE_BYTES = 16 << 20
NONZERO_BYTES = 8 << 20  # of indices or values, read at once


class Sparse(Format):
    """CSR matrices."""

    name = "csr"
    title = "sparse CSR matrix (big-ann)"
    suffixes = (".csr", ".spmat")
    aliases = {"csr": "", "spmat": "", "sparse": ""}  # noqa: RUF012
    holds = Holds(many_columns=True, dtypes=(np.dtype("<f4"),), casts=True)
    demo = False  # dense rows double in it

    def sniff(self, peek: Peek) -> Sequence[Match]:
        fits = len(peek.head) >= HEADER.size and _expected(*_numbers(peek.head)) == peek.size
        named = peek.suffix in self.suffixes
        if fits:
            nrow, ncol, nnz = _numbers(peek.head)
            reason = f"size = 24 + {nrow + 1} x 8 + {nnz} x 8, {nrow} x {ncol}"
            if named:
                return [Match(Confidence.NAMED, f"suffix {peek.suffix} and {reason}")]
            return [Match(Confidence.FITS, reason)] if nrow and nnz else []
        return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the size does not fit its header")] if named else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        nrow, ncol, nnz, notes = _header(source)
        columns: dict[str, Column] = {}
        at = HEADER.size
        for (name, code), rows in zip(PARTS.items(), (nrow + 1, nnz, nnz)):
            dtype = np.dtype(code)
            extent = Extent(0, rows, at, rows * dtype.itemsize, Raw(dtype))
            columns[name] = FileColumn(name, source, [extent], row_shape=(), encoding="raw")
            at += rows * dtype.itemsize
        if 4 * ncol <= MAX_BLOCK_BYTES and 4 * nrow * ncol <= MAX_RATIO * source.size + FREE_BYTES:
            columns = {"vectors": DenseColumn(source.label, columns, (nrow, ncol)), **columns}
        else:
            notes.append(
                f"{nrow} x {ncol} is too large to be given densely for {nnz} values; the three parts are given"
            )
        main = "vectors" if "vectors" in columns else "data"
        return Collection(columns, main=main, metadata={"shape": [nrow, ncol]}, notes=notes)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "csr float32"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        shape = _shape_of_parts(collection)
        if shape is not None:
            sink.write(HEADER.pack({"nrow": shape[0], "ncol": shape[1], "nnz": collection["data"].rows}))
            for name, code in PARTS.items():
                write_rows(sink, collection[name], Raw(np.dtype(code)), options)
            return
        column = collection.vectors
        if len(collection.columns) > 1 or len(column.shape) != 2:
            raise InputError(
                "a csr file holds one column of vectors, or indptr, indices and data with the shape in the "
                f"metadata; found {', '.join(collection.columns)}; choose one with --column (column=)"
            )
        _write_dense(column, sink, options)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            yield from (Finding("warning", note) for note in collection.notes)
            nrow, ncol = collection.metadata["shape"]
            parts = _Parts(source.label, collection.columns, (nrow, ncol))
            step = max(1, NONZERO_BYTES // 8)
            bad = 0
            for at in range(0, nrow, step):
                edges = parts.edges(at, min(at + step, nrow))
                for _, values in parts.pieces(int(edges[0]), int(edges[-1])):
                    bad += int((~np.isfinite(values)).sum())
            if bad:
                yield Finding("warning", f"{bad} values are NaN or infinity", field="data")

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        nrow, ncol, nnz, _ = _header(source)
        spans = HEADER.spans(0, {"nrow": nrow, "ncol": ncol, "nnz": nnz})
        at = HEADER.size
        for (name, code), rows in zip(PARTS.items(), (nrow + 1, nnz, nnz)):
            dtype = np.dtype(code)
            spans.append(Span(at, rows * dtype.itemsize, name, f"{rows} {dtype.name}"))
            at += rows * dtype.itemsize
        return [*spans, Span(at, source.size - at, "extra", "not part of the format")] if source.size > at else spans


class _Parts:
    """indptr, indices and data, checked as they are read."""

    def __init__(self, label: str, columns: dict[str, Column], shape: tuple[int, int]) -> None:
        self.label, self.shape = label, shape
        self.indptr, self.indices, self.data = (columns[name] for name in PARTS)

    def edges(self, start: int, stop: int) -> Array:
        """``indptr[start : stop + 1]``: from 0, never falling, up to nnz."""
        edges: Array = self.indptr[start : stop + 1]
        nnz = self.data.rows
        fine = not (np.diff(edges) < 0).any() and edges[0] >= 0 and edges[-1] <= nnz
        fine = fine and (start or edges[0] == 0) and (stop < self.shape[0] or edges[-1] == nnz)
        if not fine:
            raise Corrupt(
                "indptr does not rise from 0 to nnz",
                path=self.label,
                offset=HEADER.size + 8 * start,
                field=f"indptr[{start}:{stop + 1}]",
                expected=f"0 to {nnz}, never falling",
            )
        return edges

    def pieces(self, first: int, last: int) -> Iterator[tuple[Array, Array]]:
        """Indices and values ``first`` to ``last``, a bounded number at once."""
        step = NONZERO_BYTES // 4
        for at in range(first, last, step):
            end = min(at + step, last)
            indices, values = self.indices[at:end], self.data[at:end]
            if indices.min() < 0 or indices.max() >= self.shape[1]:
                bad = int(np.flatnonzero((indices < 0) | (indices >= self.shape[1]))[0])
                raise Corrupt(
                    "a column index is outside the matrix",
                    path=self.label,
                    field=f"indices[{at + bad}]",
                    expected=f"0 to {self.shape[1] - 1}",
                    found=int(indices[bad]),
                )
            yield indices, values


class DenseColumn(Column):
    """A sparse matrix in dense rows, made as they are read. Entries given twice add up."""

    derived = True
    encoding = "csr"

    def __init__(self, label: str, columns: dict[str, Column], shape: tuple[int, int]) -> None:
        self.name = "vectors"
        self.shape = shape
        self.dtype = np.dtype(np.float32)
        self._parts = _Parts(label, columns, shape)

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        rows = rows or rows_per_block(self.dtype, self.row_shape)
        for at in range(start, stop, rows):
            end = min(at + rows, stop)
            edges = self._parts.edges(at, end)
            dense = np.zeros((end - at, self.shape[1]), np.float32)
            done = int(edges[0])
            for indices, values in self._parts.pieces(int(edges[0]), int(edges[-1])):
                row = np.searchsorted(edges, np.arange(done, done + len(indices)), side="right") - 1
                np.add.at(dense, (row, indices), values)
                done += len(indices)
            yield Block(at, {"codes": dense}, Raw(self.dtype), end - at)


def _write_dense(column: Column, sink: Sink, options: WriteOptions) -> None:
    """Dense rows: counted in a first pass, written in a second. -0.0 counts as a value, so no bit is lost."""
    rows, ncol = column.shape
    if ncol > MAX_COLUMNS:
        raise InputError(f"csr files hold at most {MAX_COLUMNS} columns, not {ncol}")
    sink.reserve(HEADER.size)
    total = 0
    sink.write(np.zeros(1, "<i8"))
    for block in column.blocks(options.chunk_rows, reuse=True):
        counts = np.count_nonzero(_stored(block), axis=1)
        ends = total + np.cumsum(counts, dtype=np.int64)
        sink.write(ends.astype("<i8"))
        total = int(ends[-1]) if len(ends) else total
    sink.write_at(0, HEADER.pack({"nrow": rows, "ncol": ncol, "nnz": total}))
    at_indices = sink.reserve(total * 4)
    at_data = sink.reserve(total * 4)
    done = 0
    for block in column.blocks(options.chunk_rows, reuse=True):
        bits = _stored(block)
        row, index = np.nonzero(bits)
        if done + len(index) > total:
            raise InputError("the source changed while it was read")
        sink.write_at(at_indices + done * 4, index.astype("<i4"))
        sink.write_at(at_data + done * 4, bits[row, index].view("<f4"))
        done += len(index)
        if options.progress:
            options.progress(block.start + block.rows, rows)


def _stored(block: Block) -> Array:
    """A block's rows as the bits of float32."""
    codes = transcode(block, Raw(np.dtype("<f4"))).parts["codes"]
    return np.ascontiguousarray(codes).view(np.uint32)


def _shape_of_parts(collection: Collection) -> tuple[int, int] | None:
    """The shape, where the collection is the three parts of a matrix and they belong together; else None."""
    shape = collection.metadata.get("shape")
    if not set(PARTS) <= set(collection.columns) or not (isinstance(shape, (list, tuple)) and len(shape) == 2):
        return None
    plain = all(type(n) is int and n >= 0 for n in shape) and shape[1] <= MAX_COLUMNS
    indptr, indices, data = (collection[name] for name in PARTS)
    alone = set(collection.columns) <= {*PARTS, "vectors"}
    return (
        (shape[0], shape[1])
        if plain and alone and indptr.shape == (shape[0] + 1,) and indices.shape == data.shape
        else None
    )


def _numbers(head: bytes) -> tuple[int, int, int]:
    nrow, ncol, nnz = (int.from_bytes(head[at : at + 8], "little", signed=True) for at in (0, 8, 16))
    return nrow, ncol, nnz


def _expected(nrow: int, ncol: int, nnz: int) -> int:
    """The size of such a file; -1 for numbers that no matrix has."""
    if nrow < 0 or not 0 <= ncol <= MAX_COLUMNS or nnz < 0 or nnz > nrow * ncol:
        return -1
    return HEADER.size + 8 * (nrow + 1) + 8 * nnz


def _header(source: Source) -> tuple[int, int, int, list[str]]:
    values = HEADER.read(source)
    nrow, ncol, nnz = values["nrow"], values["ncol"], values["nnz"]
    expected = _expected(nrow, ncol, nnz)
    if expected < 0:
        raise Corrupt(
            "no matrix has these numbers",
            offset=0,
            field="nrow, ncol, nnz",
            expected=f"counts, ncol at most {MAX_COLUMNS}, nnz at most nrow x ncol",
            found=f"{nrow}, {ncol}, {nnz}",
        )
    if source.size < expected:
        raise Truncated(
            f"the header promises {nrow} rows and {nnz} values, but the file is shorter",
            offset=source.size,
            field="nrow, nnz",
            expected=f"{expected} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again",
        )
    extra = source.size - expected
    return (
        nrow,
        ncol,
        nnz,
        [f"{extra} extra bytes after the data, from byte {expected} on, are ignored"] if extra else [],
    )


FORMAT = Sparse()
