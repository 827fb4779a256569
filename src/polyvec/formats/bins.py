"""The bin family of the nearest-neighbour benchmarks: a count, a dimension, and the values.

::

    offset 0   u32 n    number of rows
    offset 4   u32 d    values in a row
    offset 8   n*d values, little endian, row-major; their type is told by the suffix alone

    .fbin float32   .ibin .i32bin int32   .u32bin uint32   .u8bin uint8   .i8bin int8
    .f16bin .hbin float16   .dbin float64

Where 32 bits do not suffice, u64 n, u64 d and the values from offset 16 on. There is no magic number, so the size
equation ``size == header + n*d*itemsize`` is what recognises a file; the shorter header is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polyvec.codecs import Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated, Unsupported
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.headers import (
    refuse_other_width,
    refuse_swapped,
    rows_there,
    swapped_column,
    swapped_note,
    values_swapped,
)

HEADER = Record("header", n="u4", d="u4")
WIDE_HEADER = Record("header", n="u8", d="u8")
MAX_U32 = 2**32 - 1
MAX_SWAPPED_DIM, MAX_SWAPPED_ROWS = 1 << 16, 1 << 30  # what is taken for counts where only the order can be wrong

TYPES = {
    "fbin": "<f4",
    "ibin": "<i4",
    "i32bin": "<i4",
    "u32bin": "<u4",
    "u8bin": "|u1",
    "i8bin": "|i1",
    "f16bin": "<f2",
    "hbin": "<f2",
    "dbin": "<f8",
}


class Bins(Format):
    """FBIN, IBIN and their kin."""

    name = "bins"
    title = "FBIN, IBIN and kin (big-ann-benchmarks)"
    suffixes = tuple(f".{kind}" for kind in TYPES)
    aliases = {kind: kind for kind in TYPES}  # noqa: RUF012
    holds = Holds(encodings=("raw", "float16"), dtypes=tuple(dict.fromkeys(map(np.dtype, TYPES.values()))), casts=True)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        kind = peek.suffix.lstrip(".")
        if kind in TYPES:
            fit = _fit(peek.head, peek.size, np.dtype(TYPES[kind]))
            if fit is not None:
                return [Match(Confidence.NAMED, f"suffix {peek.suffix} and {_equation(fit, kind)}", kind)]
            return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the size does not fit its header", kind)]
        found = []
        for kind, code in TYPES.items():
            fit = _fit(peek.head, peek.size, np.dtype(code))
            if fit is not None and fit[1] and fit[2] and kind not in ("i32bin", "hbin"):
                found.append(Match(Confidence.FITS, _equation(fit, kind), kind))
        return found

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        kind = variant or source.suffix.lstrip(".")
        if kind not in TYPES:
            raise Unsupported(
                "the element type is not known",
                expected=f"one of {', '.join(TYPES)}",
                remedy="say which with --from, for example --from fbin",
            )
        dtype = np.dtype(TYPES[kind])
        name = "ids" if kind == "ibin" else "vectors"
        header, n, d = read_header(source, dtype)
        swapped = swapped_header(source, dtype)
        if swapped is not None:
            header, n, d = swapped
            if not lenient:
                raise refuse_swapped(f"{n} rows of {d} values", field="n, d")
            whole = rows_there(n, d * dtype.itemsize, source.size - header.size)
            turned = values_swapped(source, header.size, dtype)
            said = [swapped_note(turned or dtype.itemsize == 1)]
            if whole < n:
                said.append(f"the file is cut short: {whole} of {n} rows exist and are read")
            column = swapped_column(name, source, header.size, (whole, d), dtype, turned=turned)
            return Collection({name: column}, notes=said)
        if n and not d:
            raise Corrupt("rows of dimension 0", offset=header.offset("d"), field="d", expected="at least 1", found=0)
        notes = []
        there = source.size - header.size
        expected = n * d * dtype.itemsize
        if there > expected or (lenient and there < expected):
            # Ids may have their distances behind them.
            but = (2 * d,) if kind in ("ibin", "i32bin", "u32bin") else ()
            refuse_other_width(n, d, there, dtype.itemsize, offset=header.offset("d"), field="d", but=but)
        if there < expected:
            if not lenient:
                raise Truncated(
                    f"the header promises {n} rows of {d} {dtype.name} values, but the file is shorter",
                    offset=source.size,
                    field="n, d",
                    expected=f"{header.size + expected} bytes",
                    found=f"{source.size} bytes",
                    remedy="fetch the file again, or take the whole rows that exist with --lenient (lenient=True)",
                )
            whole = rows_there(n, d * dtype.itemsize, there)
            notes.append(f"the file is cut short: {whole} of {n} rows exist and are read")
            n = whole
        elif there > expected:
            notes.append(
                f"{there - expected} extra bytes after the last row, from byte {header.size + expected} on, are ignored"
            )
        extent = Extent(0, n, header.size, n * d * dtype.itemsize, Raw(dtype))
        packed = FileColumn(name, source, [extent], row_shape=(d,), encoding="raw")
        return Collection({name: packed}, notes=notes)

    def suits(self, collection: Collection, suffix: str) -> bool:
        return suffix != ".i8bin" or collection.vectors.dtype == np.int8

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        dtype = np.dtype(TYPES[self._variant(collection, options)])
        return replace(self.holds, dtypes=(dtype,), encodings=("raw", "float16") if dtype == np.float16 else ("raw",))

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return f"raw {np.dtype(TYPES[self._variant(collection, options)]).name}"

    def written_variant(self, collection: Collection, options: WriteOptions) -> str:
        return self._variant(collection, options)

    def _variant(self, collection: Collection, options: WriteOptions) -> str:
        if options.variant in TYPES:
            return options.variant
        if options.encoding == "float16":
            return "f16bin"
        dtype = collection.vectors.dtype
        for kind, code in TYPES.items():
            if np.dtype(code) == dtype:
                return kind
        return "fbin" if dtype.kind in "fV" else "ibin"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        column = collection.vectors
        if len(column.shape) > 2:
            raise InputError(f"bins files hold rows of numbers, not a column of shape {column.shape}")
        dtype = np.dtype(TYPES[self._variant(collection, options)])
        values = {"n": column.rows, "d": collection.dim}
        fits = max(values.values()) <= MAX_U32
        sink.write((HEADER if fits else WIDE_HEADER).pack(values))
        write_rows(sink, column, Raw(dtype), options)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            for note in collection.notes:
                yield Finding("warning", note, offset=source.size, field="n, d")
            yield from check_rows(collection)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        kind = variant or source.suffix.lstrip(".")
        dtype = np.dtype(TYPES.get(kind, "<f4"))
        header, n, d = read_header(source, dtype)
        data = min(n * d * dtype.itemsize, source.size - header.size)
        spans = header.spans(0, {"n": n, "d": d})
        spans.append(Span(header.size, data, "values", f"{n} rows x {d} {dtype.name}"))
        if source.size > header.size + data:
            spans.append(Span(header.size + data, source.size - header.size - data, "extra", "not part of the format"))
        return spans


def read_header(source: Source, dtype: np.dtype[Any]) -> tuple[Record, int, int]:
    """The header that fits the file's size (the 8-byte one first), with n and d; the 8-byte one where neither does."""
    if source.size < HEADER.size:
        raise Truncated(
            "the file is too short for a header",
            offset=0,
            field="header",
            expected=f"{HEADER.size} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again",
        )
    fit = _fit(source.read_at(0, WIDE_HEADER.size), source.size, dtype)
    if fit is not None:
        return fit
    values = HEADER.read(source)
    if values["n"] and not values["d"] and source.size >= WIDE_HEADER.size:
        wide = WIDE_HEADER.read(source)
        if 0 < wide["d"] <= MAX_U32:
            return WIDE_HEADER, wide["n"], wide["d"]  # 0 is the upper half of n: a long file whose end is missing
    return HEADER, values["n"], values["d"]


def swapped_header(source: Source, dtype: np.dtype[Any]) -> tuple[Record, int, int] | None:
    """The header in big-endian order, where that fits the file's size and little-endian does not.

    Of a file whose end is missing, too: where little-endian not one row exists, and swapped some do.
    """
    head = source.read_at(0, WIDE_HEADER.size)
    if source.size < HEADER.size or _fit(head, source.size, dtype) is not None:
        return None
    turned = head[:4][::-1] + head[4:8][::-1], head[:8][::-1] + head[8:16][::-1]
    for header, counts in zip((HEADER, WIDE_HEADER), turned):
        if len(counts) == header.size:
            fit = _fit(counts, source.size, dtype)
            if fit is not None and fit[0] is header and fit[1] and fit[2]:
                return fit
    n, d = (int.from_bytes(turned[0][at : at + 4], "little") for at in (0, 4))
    _, promised, width = read_header(source, dtype)
    there = source.size - HEADER.size
    cut = 0 < d <= MAX_SWAPPED_DIM and there // (d * dtype.itemsize) > 0 and there < n * d * dtype.itemsize
    lost = not promised or width * dtype.itemsize > there
    return (HEADER, n, d) if cut and lost and n <= MAX_SWAPPED_ROWS else None


def _fit(head: bytes, size: int, dtype: np.dtype[Any]) -> tuple[Record, int, int] | None:
    for header in (HEADER, WIDE_HEADER):
        if len(head) >= header.size:
            half = header.size // 2
            n, d = int.from_bytes(head[:half], "little"), int.from_bytes(head[half : header.size], "little")
            if header is WIDE_HEADER and (not d or (not n and d > MAX_U32)):
                continue  # sixteen bytes of anything would fit: 0 x d and n x 0 promise no data
            if header.size + n * d * dtype.itemsize == size:
                return header, n, d
    return None


def _equation(fit: tuple[Record, int, int], kind: str) -> str:
    header, n, d = fit
    width = np.dtype(TYPES[kind]).itemsize
    return f"size = {header.size} + {n} x {d} x {width}"


FORMAT = Bins()
