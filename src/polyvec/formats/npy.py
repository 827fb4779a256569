"""NumPy's .npy: one array of any numeric dtype, read and written as a stream.

::

    offset 0   93 'NUMPY'   magic
    offset 6   u8 major, u8 minor     1.0, 2.0 or 3.0
    offset 8   u16 (u32 from 2.0 on)  header length
    ...        a Python dict literal: descr, fortran_order, shape; then the values

Object arrays are pickles, and are never read. Big-endian and Fortran-order arrays are converted as they are read.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from polyvec.codecs import BFloat16, Float16, Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Codec, Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn, ReaderColumn
from polyvec.core.dtypes import BFLOAT16, NUMBERS
from polyvec.core.errors import Corrupt, Truncated, Unsupported
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Record, Span, take
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.headers import refuse_other_width, rows_there, swapped_column

MAGIC = b"\x93NUMPY"
PRELUDE = Record("prelude", magic=6, major="u1", minor="u1")
MAX_HEADER = 10_000  # NumPy's own limit: literal_eval of more is not safe
MAX_DIMENSIONS = 32


class Npy(Format):
    """NumPy arrays."""

    name = "npy"
    title = "NumPy array"
    suffixes = (".npy",)
    holds = Holds(encodings=("raw", "float16", "bfloat16"), dtypes=(*NUMBERS, BFLOAT16))

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, "starts with the magic 93 'NUMPY'")]
        return [Match(Confidence.SUFFIX, "suffix .npy; the magic is missing")] if peek.suffix == ".npy" else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        header = read_header(source)
        notes: list[str] = []
        there, expected = source.size - header.data, prod(header.shape) * header.dtype.itemsize
        shape = header.shape
        width = prod(shape[1:])
        if there > expected or (lenient and there < expected):
            refuse_other_width(shape[0], width, there, header.dtype.itemsize, offset=header.text, field="shape")
        if there < expected:
            if not lenient or header.fortran:
                raise Truncated(
                    f"the header promises an array of shape {shape}, but the file is shorter",
                    offset=source.size,
                    field="shape",
                    expected=f"{header.data + expected} bytes",
                    found=f"{source.size} bytes",
                    remedy="fetch the file again, or take the whole rows that exist with --lenient (lenient=True)",
                )
            shape = (rows_there(shape[0], width * header.dtype.itemsize, there), *shape[1:])
            notes.append(f"the file is cut short: {shape[0]} of {header.shape[0]} rows exist and are read")
        elif there > expected:
            notes.append(
                f"{there - expected} extra bytes after the last row, from byte {header.data + expected} on, are ignored"
            )
        if header.dtype.byteorder == ">":
            notes.append(f"big-endian {header.dtype.name} is converted to little-endian as it is read")
        column: Column
        if header.fortran and len(shape) > 1:
            notes.append("Fortran order is turned into rows as it is read")
            column = _fortran(source, header)
        elif header.dtype.byteorder == ">":
            column = swapped_column("vectors", source, header.data, shape, header.dtype.newbyteorder("<"))
        else:
            extent = Extent(0, shape[0], header.data, prod(shape) * header.dtype.itemsize, Raw(header.dtype))
            column = FileColumn("vectors", source, [extent], row_shape=shape[1:], encoding="raw")
        return Collection({"vectors": column}, notes=notes)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return options.encoding if options.encoding not in (None, "raw") else f"raw {collection.vectors.dtype.name}"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        column = collection.vectors
        codec: Codec = Raw(column.dtype.newbyteorder("<"))
        if options.encoding == "float16":
            codec = Float16() if column.dtype != np.float16 else Raw(np.dtype("<f2"))
        elif options.encoding == "bfloat16":
            codec = BFloat16()
        stored = codec.parts(column.row_shape)["codes"][0]
        sink.write(_header_bytes(stored, column.shape))
        write_rows(sink, column, codec, options)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        header = read_header(source)
        size = min(prod(header.shape) * header.dtype.itemsize, source.size - header.data)
        spans = [
            Span(0, 6, "magic", "93 'NUMPY'"),
            Span(6, 2, "version", f"{header.version[0]}.{header.version[1]}"),
            Span(8, header.text - 8, "header length", str(header.data - header.text)),
            Span(header.text, header.data - header.text, "header", header.words),
            Span(header.data, size, "values", f"{'x'.join(map(str, header.shape))} {header.dtype.name}"),
        ]
        if source.size > header.data + size:
            spans.append(Span(header.data + size, source.size - header.data - size, "extra", "not part of the format"))
        return spans


class _Header:
    """A parsed header: ``text`` and ``data`` are offsets."""

    def __init__(
        self,
        version: tuple[int, int],
        text: int,
        data: int,
        words: str,
        dtype: np.dtype[Any],
        fortran: bool,
        shape: tuple[int, ...],
    ) -> None:
        self.version, self.text, self.data, self.words = version, text, data, words
        self.dtype, self.fortran, self.shape = dtype, fortran, shape


def read_header(source: Source) -> _Header:
    """The header, checked: no pickles, no lengths that the file cannot hold."""
    prelude = PRELUDE.read(source)
    if prelude["magic"] != MAGIC:
        raise Corrupt("not an npy file", offset=0, field="magic", expected=repr(MAGIC), found=repr(prelude["magic"]))
    version = (prelude["major"], prelude["minor"])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise Unsupported(
            "unknown npy version",
            offset=6,
            field="version",
            expected="1.0, 2.0 or 3.0",
            found=f"{version[0]}.{version[1]}",
        )
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(take(source, 8, width, "header length"), "little")
    text = 8 + width
    if length > MAX_HEADER:
        raise Corrupt(
            "the header is too long to be one",
            offset=8,
            field="header length",
            expected=f"at most {MAX_HEADER}",
            found=length,
        )
    raw = take(source, text, length, "header")
    try:
        words = raw.decode("utf-8" if version == (3, 0) else "latin-1")
        value = ast.literal_eval(words.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, UnicodeDecodeError):
        raise Corrupt("the header is not a dict literal", offset=text, field="header") from None
    if not isinstance(value, dict) or set(value) != {"descr", "fortran_order", "shape"}:
        raise Corrupt(
            "the header has the wrong keys", offset=text, field="header", expected="descr, fortran_order, shape"
        )
    return _Header(
        version,
        text,
        text + length,
        words.strip(),
        _dtype(value["descr"], text),
        _flag(value["fortran_order"], text),
        _shape(value["shape"], text),
    )


def _dtype(descr: Any, offset: int) -> np.dtype[Any]:
    if isinstance(descr, str) and "O" in descr:
        raise Unsupported(
            "the array holds Python objects, which are pickles and are never read",
            offset=offset,
            field="descr",
            found=descr,
            remedy="save it again with a numeric dtype",
        )
    if descr in ("bfloat16", "<V2", "|V2"):
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    try:
        dtype = np.dtype(descr) if isinstance(descr, str) and len(descr) < 16 else None
    except (TypeError, ValueError, SyntaxError, OverflowError):
        dtype = None
    if dtype is None or dtype.kind not in "fiub" or dtype.itemsize > 8 or dtype.shape:
        raise Unsupported(
            "the array does not hold plain numbers",
            offset=offset,
            field="descr",
            expected="floats or integers of up to 8 bytes",
            found=str(descr)[:60],
        )
    return dtype


def _flag(value: Any, offset: int) -> bool:
    if not isinstance(value, bool):
        raise Corrupt("fortran_order is not a flag", offset=offset, field="fortran_order", found=str(value)[:60])
    return value


def _shape(value: Any, offset: int) -> tuple[int, ...]:
    plain = isinstance(value, tuple) and all(type(n) is int and 0 <= n < 2**63 for n in value)
    if not plain or len(value) > MAX_DIMENSIONS or not value or prod(value) >= 2**63:
        raise Corrupt(
            "the shape is not one",
            offset=offset,
            field="shape",
            expected="a tuple of one or more counts",
            found=str(value)[:60],
        )
    if value[0] and not prod(value[1:]):
        raise Corrupt(
            "rows of no values",
            offset=offset,
            field="shape",
            expected="at least one value a row",
            found=str(value)[:60],
        )
    return tuple(value)


def _fortran(source: Source, header: _Header) -> Column:
    """Rows of a Fortran-order array: gathered from a mapping, since a row is spread over the whole file."""
    size = prod(header.shape) * header.dtype.itemsize
    array = source.mapped(header.data, size).view(header.dtype).reshape(header.shape, order="F")
    dtype = header.dtype.newbyteorder("<")
    return ReaderColumn("vectors", header.shape, dtype, lambda a, b: np.ascontiguousarray(array[a:b], dtype))


def _header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    descr = "<V2" if dtype == ml_dtypes.bfloat16 else dtype.str
    fields = {"descr": descr, "fortran_order": False, "shape": tuple(map(int, shape))}
    np.lib.format.write_array_header_1_0(out, fields)
    return out.getvalue()


FORMAT = Npy()
