"""Reading and writing safetensors for model import and export: no pickle, no trust in any length.

::

    u64 n; n bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {text: text}}
    the tensors, packed in offset order with no holes
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from polyvec.core.blocks import Extent, Raw
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.layout import take
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json

MAX_HEADER = 100_000_000  # the bound that the format's own reader sets
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read_safetensors(source: Source) -> tuple[dict[str, Column], dict[str, str], list[str]]:
    """Tensors as columns in file order, the file's metadata, and the names of scalars, which are no columns."""
    size = int.from_bytes(take(source, 0, 8, "header length"), "little")
    if size > min(MAX_HEADER, source.size - 8):
        raise Truncated(
            "the safetensors header does not fit the file",
            path=source.label,
            offset=0,
            field="header length",
            expected=f"at most {min(MAX_HEADER, source.size - 8)}",
            found=size,
        )
    header = parse_json(source.read_at(8, size), path=source.label, offset=8, field="safetensors header")
    if not isinstance(header, dict):
        raise _wrong(source, "the safetensors header is not an object", "header")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _wrong(source, "__metadata__ must map text to text", "__metadata__")
    start, at = 8 + size, 0
    columns: dict[str, Column] = {}
    scalars: list[str] = []
    for name, (dtype, shape, begin, end) in sorted(
        ((name, _entry(source, name, value)) for name, value in header.items()), key=lambda item: item[1][2:]
    ):
        if begin != at:
            raise _wrong(
                source, f"tensor {name!r} starts at {begin}, not where the one before ends ({at})", "data_offsets"
            )
        at = end
        if shape:
            rows, *rest = shape
            extents = [Extent(0, rows, start + begin, end - begin, Raw(dtype))] if rows else []
            columns[name] = FileColumn(name, source, extents, row_shape=tuple(rest), encoding="raw", dtype=dtype)
        else:
            scalars.append(name)
    if start + at != source.size:
        raise Truncated(
            "the tensors do not end where the file does",
            path=source.label,
            field="data_offsets",
            expected=f"{start + at} bytes",
            found=f"{source.size} bytes",
        )
    return columns, metadata, scalars


def _entry(source: Source, name: str, value: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _wrong(source, f"tensor {name!r} must have dtype, shape and data_offsets, and nothing else", name)
    if value["dtype"] not in DTYPES:
        raise Unsupported(
            f"tensor {name!r} has the dtype {str(value['dtype'])[:20]!r}",
            path=source.label,
            field=name,
            expected=", ".join(DTYPES),
        )
    shape, offsets = value["shape"], value["data_offsets"]
    numbers = (
        [*shape, *offsets] if isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2 else [-1]
    )
    if any(type(number) is not int or not 0 <= number < 2**63 for number in numbers):
        raise _wrong(source, f"tensor {name!r} has a bad shape or bad offsets", name)
    dtype = DTYPES[value["dtype"]]
    if offsets[1] - offsets[0] != prod(shape) * dtype.itemsize:
        raise _wrong(
            source,
            f"tensor {name!r} of shape {shape} takes {prod(shape) * dtype.itemsize} bytes, and its "
            f"offsets span {offsets[1] - offsets[0]}",
            name,
        )
    return dtype, tuple(shape), offsets[0], offsets[1]


def _wrong(source: Source, message: str, field: str) -> FormatError:
    return Corrupt(message, path=source.label, field=field)


def write_safetensors(sink: Sink, columns: Mapping[str, Column], metadata: Mapping[str, str]) -> None:
    """Columns in order, decoded; the same columns give the same bytes."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, column in columns.items():
        end = at + prod(column.shape) * column.dtype.itemsize
        header[name] = {
            "dtype": _NAMES[column.dtype.newbyteorder("<")],
            "shape": list(column.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    sink.write(len(text).to_bytes(8, "little") + text)
    for column in columns.values():
        for block in column.blocks(reuse=True):
            sink.write(np.ascontiguousarray(block.decode()))
