"""The TEXMEX family: .fvecs, .ivecs, .bvecs. Every row carries its own dimension.

::

    row:  i32 d, then d values      .fvecs float32   .ivecs int32   .bvecs uint8
    repeated to the end of the file; every row has the same d

There is no magic number and no count: a file is recognised by ``size == n * (4 + d*itemsize)`` and by the second
row's d, which must repeat the first. A row's d is checked whenever the row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polyvec.codecs import Raw, transcode
from polyvec.core.blocks import Array, Block, Extent, rows_per_block
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn, ReaderColumn
from polyvec.core.errors import Corrupt, InputError, Truncated, Unsupported
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.headers import refuse_swapped, swapped_note, values_swapped

HEADER = Record("row", d="i4")
TYPES = {"fvecs": "<f4", "ivecs": "<i4", "bvecs": "|u1"}
MAX_I32 = 2**31 - 1


class Vecs(Format):
    """fvecs, ivecs, bvecs."""

    name = "vecs"
    title = "fvecs, ivecs, bvecs (TEXMEX)"
    suffixes = tuple(f".{kind}" for kind in TYPES)
    aliases = {kind: kind for kind in TYPES}  # noqa: RUF012
    holds = Holds(dtypes=tuple(map(np.dtype, TYPES.values())), casts=True)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        kind = peek.suffix.lstrip(".")
        if kind in TYPES:
            fit = _fit(peek.head, peek.size, np.dtype(TYPES[kind]).itemsize)
            if fit is not None:
                return [Match(Confidence.NAMED, f"suffix {peek.suffix} and {_equation(fit, kind)}", kind)]
            return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the size does not fit its first row", kind)]
        found = []
        for kind, code in TYPES.items():
            fit = _fit(peek.head, peek.size, np.dtype(code).itemsize)
            if fit is not None and fit[2]:
                found.append(Match(Confidence.FITS, f"{_equation(fit, kind)}, and row 1 repeats d", kind))
        return found

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        dtype, d, swapped = _first(source, variant)
        stride = HEADER.size + d * dtype.itemsize
        rows, rest = divmod(source.size, stride)
        notes = []
        turned = False
        if swapped:
            if not lenient:
                raise refuse_swapped(f"rows of {d} values", field="row 0 d")
            turned = values_swapped(source, 0, np.dtype((dtype, (d,))), HEADER.size)
            notes.append(swapped_note(turned or dtype.itemsize == 1))
        if rest:
            if not lenient:
                raise Truncated(
                    f"the file is no whole number of rows of {d} {dtype.name} values",
                    offset=source.size - rest,
                    field=f"row {rows}",
                    expected=f"{stride} bytes a row",
                    found=f"{rest} bytes",
                    remedy="fetch the file again, or take the whole rows that exist with --lenient (lenient=True)",
                )
            notes.append(f"the file is cut short: {rows} whole rows exist and are read")
        extent = Extent(0, rows, HEADER.size, rows * stride, Raw(dtype), stride=stride)
        name = "ids" if dtype.kind == "i" else "vectors"
        if swapped:
            column: Column = _swapped_rows(name, source, (rows, d), dtype, turned=turned)
        else:
            column = VecsColumn(name, source, [extent], row_shape=(d,), encoding="raw")
        return Collection({column.name: column}, notes=notes)

    def written_variant(self, collection: Collection, options: WriteOptions) -> str:
        return _variant(collection, options)

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        return replace(self.holds, dtypes=(np.dtype(TYPES[_variant(collection, options)]),))

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return f"raw {np.dtype(TYPES[_variant(collection, options)]).name}"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        column = collection.vectors
        if len(column.shape) > 2:
            raise InputError(f"vecs files hold rows of numbers, not a column of shape {column.shape}")
        if not column.rows or not 0 < collection.dim <= MAX_I32:
            raise InputError(
                f"vecs files hold at least one row of 1 to {MAX_I32} values, not {column.rows} rows of "
                f"{collection.dim}; choose another format"
            )
        dtype = np.dtype(TYPES[_variant(collection, options)])
        stride = HEADER.size + collection.dim * dtype.itemsize
        done = 0
        for block in column.blocks(options.chunk_rows, reuse=True):
            codes = transcode(block, Raw(dtype)).parts["codes"].reshape(block.rows, collection.dim)
            rows = np.empty((block.rows, stride), np.uint8)
            rows[:, : HEADER.size] = np.frombuffer(HEADER.pack({"d": collection.dim}), np.uint8)
            rows[:, HEADER.size :] = np.ascontiguousarray(codes).view(np.uint8)
            sink.write(rows)
            done += block.rows
            if options.progress:
                options.progress(done, column.rows)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        dtype, d, _ = _first(source, variant)
        stride = HEADER.size + d * dtype.itemsize
        spans = [
            Span(0, HEADER.size, "row 0 d", str(d)),
            Span(HEADER.size, stride - HEADER.size, "row 0 values", f"{d} {dtype.name}"),
        ]
        rows, rest = divmod(source.size, stride)
        if rows > 1:
            spans.append(Span(stride, (rows - 1) * stride, f"rows 1 to {rows - 1}", f"{stride} bytes each"))
        if rest:
            spans.append(Span(rows * stride, rest, "extra", "not a whole row"))
        return spans


class VecsColumn(FileColumn):
    """Rows with their dimension before them, which is checked as they are read."""

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        d, width = self.row_shape[0], self.row_shape[0] * self.dtype.itemsize
        stride = HEADER.size + width
        rows = rows or rows_per_block(self.dtype, self.row_shape)
        expected = np.frombuffer(HEADER.pack({"d": d}), np.uint8)
        raw = np.empty((0, stride), np.uint8)
        for at in range(start, stop, rows):
            count = min(rows, stop - at)
            if len(raw) < count:
                raw = np.empty((count, stride), np.uint8)
            piece = raw[:count]
            self.source.read_into(at * stride, piece)
            wrong = (piece[:, : HEADER.size] != expected).any(axis=1)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise Corrupt(
                    "rows differ in dimension",
                    path=self.source.label,
                    offset=(at + row) * stride,
                    field=f"row {at + row} d",
                    expected=d,
                    found=int.from_bytes(piece[row, : HEADER.size].tobytes(), "little", signed=True),
                )
            codes: Array = np.ascontiguousarray(piece[:, HEADER.size :]).view(self.dtype)
            yield Block(at, {"codes": codes}, Raw(self.dtype), count)


def _variant(collection: Collection, options: WriteOptions) -> str:
    if options.variant in TYPES:
        return options.variant
    dtype = collection.vectors.dtype
    return next(
        (kind for kind, code in TYPES.items() if np.dtype(code) == dtype), "fvecs" if dtype.kind in "fV" else "ivecs"
    )


def _swapped_rows(
    name: str, source: Source, shape: tuple[int, int], dtype: np.dtype[Any], *, turned: bool
) -> ReaderColumn:
    """Rows whose dimension before them, and perhaps whose values, are big-endian; every one is checked."""
    stored = np.dtype([("d", ">i4"), ("values", dtype.newbyteorder(">") if turned else dtype, (shape[1],))])

    def read(start: int, stop: int) -> Array:
        raw = np.empty(stop - start, stored)
        source.read_into(start * stored.itemsize, raw.view(np.uint8))
        wrong = np.flatnonzero(raw["d"] != shape[1])
        if len(wrong):
            row = start + int(wrong[0])
            raise Corrupt(
                "rows differ in dimension",
                path=source.label,
                offset=row * stored.itemsize,
                field=f"row {row} d",
                expected=shape[1],
                found=int(raw["d"][wrong[0]]),
            )
        return raw["values"].astype(dtype)

    return ReaderColumn(name, shape, dtype, read)


def _first(source: Source, variant: str) -> tuple[np.dtype[Any], int, bool]:
    """The element type, the first row's dimension, checked against the bytes that exist, and whether it is big-endian."""
    kind = variant or source.suffix.lstrip(".")
    if kind not in TYPES:
        raise Unsupported(
            "the element type is not known",
            expected=f"one of {', '.join(TYPES)}",
            remedy="say which with --from, for example --from fvecs",
        )
    dtype = np.dtype(TYPES[kind])
    d = HEADER.read(source)["d"]
    if d < 1 or HEADER.size + d * dtype.itemsize > source.size:
        turned = int.from_bytes(source.read_at(0, 4), "big", signed=True)
        stride = HEADER.size + turned * dtype.itemsize
        if turned > 0 and stride <= source.size and source.read_at(stride, 4) in (source.read_at(0, 4), b""):
            return dtype, turned, True
    if d < 1:
        raise Corrupt("the first row has no dimension", offset=0, field="row 0 d", expected="at least 1", found=d)
    if HEADER.size + d * dtype.itemsize > source.size:
        raise Truncated(
            f"the first row promises {d} {dtype.name} values, but the file is shorter",
            offset=source.size,
            field="row 0 d",
            expected=f"{HEADER.size + d * dtype.itemsize} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again",
        )
    second = source.read_at(HEADER.size + d * dtype.itemsize, HEADER.size)
    if second and second != source.read_at(0, len(second)):
        raise Corrupt(
            "rows differ in dimension: the first one's may be damaged",
            offset=HEADER.size + d * dtype.itemsize,
            field="row 1 d",
            expected=d,
            found=int.from_bytes(second, "little", signed=True),
        )
    return dtype, d, False


def _fit(head: bytes, size: int, width: int) -> tuple[int, int, bool] | None:
    """Rows and dimension where the size is whole rows, and whether a second row in ``head`` confirms them."""
    d = int.from_bytes(head[:4], "little", signed=True) if len(head) >= 4 else 0
    stride = HEADER.size + d * width
    if d < 1 or size % stride or size < stride:
        return None
    second = head[stride : stride + 4]
    if len(second) == 4 and second != head[:4]:
        return None
    return size // stride, d, len(second) == 4


def _equation(fit: tuple[int, int, bool], kind: str) -> str:
    return f"size = {fit[0]} x (4 + {fit[1]} x {np.dtype(TYPES[kind]).itemsize})"


FORMAT = Vecs()
