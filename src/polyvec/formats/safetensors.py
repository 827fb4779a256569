"""safetensors: named tensors behind a JSON header; every tensor a column.

::

    offset 0   u64 N                 header length
    offset 8   N bytes of JSON       {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
                                      "__metadata__": {"KEY": "TEXT"}}, perhaps padded with spaces
    then       the data; data_offsets count from here, cover it all, without gaps or overlaps

Metadata is text to text; other metadata is kept as JSON under the key ``polyvec``. A tensor without dimensions is a
column of one row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from polyvec.codecs import BFloat16, Float16, Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Codec, Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated, Unsupported
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span, take
from polyvec.core.plain import json_default
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json

MAX_HEADER = 100_000_000  # the limit of safetensors itself
METADATA = "__metadata__"
PACKED = "polyvec"
MAIN = ("vectors", "embeddings", "embedding.weight", "embeddings.word_embeddings.weight", "train")
TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("|i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("|u1"),
    "BOOL": np.dtype("|b1"),
}
NAMES = {dtype: name for name, dtype in TYPES.items()}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the header; ``start, stop`` are offsets in the file."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


class Safetensors(Format):
    """safetensors files."""

    name = "safetensors"
    title = "safetensors"
    suffixes = (".safetensors",)
    holds = Holds(many_columns=True, metadata=True, encodings=("raw", "float16", "bfloat16"), dtypes=tuple(NAMES))

    def sniff(self, peek: Peek) -> Sequence[Match]:
        length = int.from_bytes(peek.head[:8], "little") if len(peek.head) >= 10 else 0
        if 2 <= length <= min(MAX_HEADER, peek.size - 8) and peek.head[8:10] in (b'{"', b"{}"):
            return [Match(Confidence.MAGIC, f"a header of {length} bytes that starts with {{")]
        named = peek.suffix in self.suffixes
        return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the header does not look like one")] if named else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        tensors, metadata, _ = read_header(source)
        columns: dict[str, Column] = {}
        for tensor in tensors:
            shape = tensor.shape or (1,)
            extent = Extent(0, shape[0], tensor.start, tensor.stop - tensor.start, Raw(tensor.dtype))
            columns[tensor.name] = FileColumn(tensor.name, source, [extent], row_shape=shape[1:], encoding="raw")
        flat = [name for name, column in columns.items() if len(column.shape) == 2]
        main = next((name for name in MAIN if name in flat), (flat or list(columns))[0])
        packed = metadata.pop(PACKED, None)
        if packed is not None:
            value = parse_json(packed.encode("utf-8"), field=f"{METADATA}.{PACKED}")
            if not isinstance(value, dict):
                raise Corrupt("polyvec's metadata is not an object", field=f"{METADATA}.{PACKED}")
            named = value.pop("main", None)
            main = named if named in columns else main
            extra = value.pop("metadata", {})
            metadata = {**metadata, **(extra if isinstance(extra, dict) else {})}
        return Collection(columns, main=main, metadata=metadata)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return options.encoding if options.encoding not in (None, "raw") else f"raw {collection.vectors.dtype.name}"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        codecs = {
            n: _codec(c, options.encoding if n == collection.main else None) for n, c in collection.columns.items()
        }
        header: dict[str, Any] = {}
        metadata = _metadata(collection)
        if metadata:
            header[METADATA] = metadata
        # As its own library does: wide types first, so that every tensor starts where its type may.
        stored = {name: codecs[name].parts(column.row_shape)["codes"][0] for name, column in collection.columns.items()}
        order = sorted(collection.columns, key=lambda name: -stored[name].itemsize)
        at = 0
        for name in order:
            if name == METADATA:
                raise InputError(f"a tensor cannot be called {METADATA}")
            shape = collection[name].shape
            size = prod(shape) * stored[name].itemsize
            header[name] = {"dtype": NAMES[stored[name]], "shape": list(shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        text += b" " * (-len(text) % 8)
        if len(text) > MAX_HEADER:
            raise InputError(f"the header would be {len(text)} bytes long, and safetensors takes {MAX_HEADER}")
        sink.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            write_rows(sink, collection[name], codecs[name], options)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        tensors, _, data = read_header(source)
        spans = [Span(0, 8, "header length", str(data - 8)), Span(8, data - 8, "header", "JSON")]
        spans += [Span(t.start, t.stop - t.start, t.name, f"{'x'.join(map(str, t.shape))} {t.dtype}") for t in tensors]
        return spans


def read_header(source: Source) -> tuple[list[Tensor], dict[str, str], int]:
    """The tensors in the order of their data, the metadata, and where the data starts; all checked."""
    length = int.from_bytes(take(source, 0, 8, "header length"), "little")
    if length > MAX_HEADER:
        raise Corrupt(
            "the header is too long to be one",
            offset=0,
            field="header length",
            expected=f"at most {MAX_HEADER}",
            found=length,
        )
    text = take(source, 8, length, "header")
    header = parse_json(text, offset=8, field="header")
    if not isinstance(header, dict) or not text.startswith(b"{"):
        raise Corrupt("the header is not a JSON object", offset=8, field="header", expected="{…}")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Corrupt("metadata is not text to text", offset=8, field=METADATA)
    data = 8 + length
    tensors = sorted((_tensor(n, entry, data) for n, entry in header.items()), key=lambda t: (t.start, t.stop))
    if not tensors:
        raise Unsupported("the file holds no tensors", field="header", expected="at least one")
    at = data
    for tensor in tensors:
        if tensor.start != at:
            what = "overlap" if tensor.start < at else "leave a gap"
            raise Corrupt(
                f"tensors {what}",
                offset=tensor.start,
                field=f"{tensor.name}.data_offsets",
                expected=f"a start at {at - data}",
                found=tensor.start - data,
            )
        at = tensor.stop
    if at > source.size:
        raise Truncated(
            "the header promises more data than the file has",
            offset=source.size,
            field=f"{tensors[-1].name}.data_offsets",
            expected=f"{at} bytes",
            found=f"{source.size} bytes",
            remedy="fetch the file again",
        )
    if at < source.size:
        raise Corrupt(
            "bytes after the last tensor", offset=at, field="data", expected=f"{at} bytes", found=f"{source.size} bytes"
        )
    return tensors, dict(metadata), data


def _tensor(name: str, entry: Any, data: int) -> Tensor:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Corrupt("a tensor has the wrong keys", offset=8, field=name, expected="dtype, shape, data_offsets")
    if entry["dtype"] not in TYPES if isinstance(entry["dtype"], str) else True:
        raise Unsupported(
            "unknown dtype",
            offset=8,
            field=f"{name}.dtype",
            expected=f"one of {', '.join(TYPES)}",
            found=str(entry["dtype"])[:40],
        )
    dtype, shape, offsets = TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise Corrupt("the shape is not one", offset=8, field=f"{name}.shape", expected="counts", found=str(shape)[:60])
    if shape and shape[0] and not prod(shape):
        raise Unsupported("rows of no values", offset=8, field=f"{name}.shape", found=str(shape)[:60])
    plain = isinstance(offsets, list) and len(offsets) == 2 and all(type(n) is int and n >= 0 for n in offsets)
    size = prod(shape) * dtype.itemsize
    if not plain or offsets[1] - offsets[0] != size:
        raise Corrupt(
            "offsets do not fit the shape",
            offset=8,
            field=f"{name}.data_offsets",
            expected=f"two that are {size} bytes apart",
            found=str(offsets)[:60],
        )
    return Tensor(name, dtype, tuple(shape), data + offsets[0], data + offsets[1])


def _codec(column: Column, encoding: str | None) -> Codec:
    if encoding == "float16":
        return Raw(np.dtype("<f2")) if column.dtype == np.float16 else Float16()
    if encoding == "bfloat16":
        return Raw(column.dtype) if column.dtype == ml_dtypes.bfloat16 else BFloat16()
    return Raw(column.dtype.newbyteorder("<") if column.dtype.kind in "fiu" else column.dtype)


def _metadata(collection: Collection) -> dict[str, str]:
    """Text as it is; other values, and a main column that `open` would not choose, under a key of our own."""
    text = {k: v for k, v in collection.metadata.items() if isinstance(v, str) and k != PACKED}
    packed: dict[str, Any] = {}
    rest = {k: v for k, v in collection.metadata.items() if k not in text}
    if rest:
        packed["metadata"] = rest
    if len(collection.columns) > 1:
        packed["main"] = collection.main
    try:
        return {**text, PACKED: json.dumps(packed, ensure_ascii=False, default=json_default)} if packed else text
    except (TypeError, ValueError) as error:
        raise InputError(f"the metadata cannot be written: {error}") from None


FORMAT = Safetensors()
