"""The tensor index: what tensors there are and where, all of it checked before any is read."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt
from polyvec.core.layout import Cursor, take
from polyvec.core.sources import Source
from polyvec.formats.weights.records import (
    ALIGNMENT,
    DESCRIPTOR,
    DTYPES,
    FOOTER,
    Contents,
    Tensor,
    Window,
    hash_name,
    refuse_overlaps,
    sections,
)


def read_index(source: Source, contents: Contents) -> None:
    """Put the tensors of a file into its contents."""
    header = contents.header
    start, count = header["tensor_index_offset"], header["tensor_index_count"]
    table = take(source, start, count * DESCRIPTOR.size, "tensor index")
    index = np.frombuffer(
        table,
        np.dtype(
            [
                ("hash", "<u4"),
                ("dtype", "u1"),
                ("ndim", "u1"),
                ("name", "<u2"),
                ("shape", "<u4", (4,)),
                ("offset", "<u8"),
            ]
        ),
    )
    contents.names_offset = start + len(table)
    contents.names_size = int(index["name"].sum(dtype=np.int64)) if count else 0
    limit = min(
        [place for _, place, size in sections(header) if place >= contents.names_offset and size]
        + [source.size - FOOTER.size]
    )
    if contents.names_offset + contents.names_size > limit:
        raise Corrupt(
            "the tensor names reach past the index",
            offset=contents.names_offset,
            field="name_length",
            expected=f"an end of at most {limit}",
            found=contents.names_offset + contents.names_size,
        )
    window = Window(source, contents.names_offset, contents.names_size, "tensor names")
    names = Cursor(window, contents.names_offset)
    seen: set[str] = set()
    for number, (hashed, code, ndim, length, sizes, offset) in enumerate(index.tolist()):
        tensor = _describe(
            header,
            start + number * DESCRIPTOR.size,
            names.text(length, f"name of tensor {number}"),
            code,
            ndim,
            sizes,
            offset,
        )
        at = tensor.place
        if hash_name(tensor.name.encode()) != hashed:
            raise Corrupt(
                f"the name hash of tensor {tensor.name!r} does not match",
                offset=at,
                field="name_hash",
                expected=f"{hash_name(tensor.name.encode()):#010x}",
                found=f"{hashed:#010x}",
            )
        if tensor.name in seen:
            raise Corrupt(f"tensor {tensor.name!r} appears twice", offset=at, field="name")
        seen.add(tensor.name)
        if contents.aligned and offset % ALIGNMENT:
            raise Corrupt(
                f"tensor {tensor.name!r} is not aligned",
                offset=at + DESCRIPTOR.offset("data_offset"),
                field="data_offset",
                expected=f"a multiple of {ALIGNMENT}",
                found=offset,
            )
        contents.tensors.append(tensor)
    refuse_overlaps([(t.name, t.offset, t.size) for t in contents.tensors if t.size], "tensor")


def _describe(
    header: dict[str, Any], at: int, name: str, code: int, ndim: int, sizes: list[int], offset: int
) -> Tensor:
    if code >= len(DTYPES):
        raise Corrupt(
            f"tensor {name!r} has an unknown data type",
            offset=at + DESCRIPTOR.offset("dtype"),
            field="dtype",
            expected=f"0..{len(DTYPES) - 1}",
            found=code,
        )
    if not 1 <= ndim <= 4:
        raise Corrupt(
            f"tensor {name!r} has {ndim} dimensions",
            offset=at + DESCRIPTOR.offset("ndim"),
            field="ndim",
            expected="1..4",
            found=ndim,
        )
    shape = tuple(int(size) for size in sizes[:ndim])
    if any(sizes[ndim:]):
        raise Corrupt(
            f"tensor {name!r} has sizes beyond its {ndim} dimensions",
            offset=at + DESCRIPTOR.offset(f"shape{ndim}"),
            field="shape",
            expected=0,
            found=[int(s) for s in sizes[ndim:]],
        )
    if shape[0] and not all(shape):
        raise Corrupt(
            f"tensor {name!r} has rows without values",
            offset=at + DESCRIPTOR.offset("shape0"),
            field="shape",
            expected="sizes of at least 1",
            found=list(shape),
        )
    kind, dtype = DTYPES[code]
    size = prod(shape) * dtype.itemsize
    if offset + size > header["tensor_data_size"]:
        raise Corrupt(
            f"tensor {name!r} reaches past the tensor data",
            offset=at + DESCRIPTOR.offset("data_offset"),
            field="data_offset",
            expected=f"an end of at most {header['tensor_data_size']}",
            found=offset + size,
        )
    return Tensor(name, dtype, kind, shape, header["tensor_data_offset"] + offset, size, at)
