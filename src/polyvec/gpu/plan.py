"""What goes over the bus: a column's extents cut into pieces, and pieces gathered into buffers.

A buffer is one copy and one launch. It starts with its own table, so that nothing else has to travel::

    table     int64 [pieces][FIELDS]    SOURCE, TARGET, COUNT, KIND, A and B (float bits), WIDTH, EXTRA
    payloads  each at a multiple of 16 bytes, whatever its offset in the file was
    tiles     int64 [tiles][2]          record, first element: which program of the kernel decodes what

SOURCE and EXTRA count bytes in the buffer, TARGET and COUNT elements of the output. ``kind`` says how codes become
values: the same numbers in CUDA, Triton and the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs import AffineUint8, BFloat16, Float16, Raw, ScaledInt8, SymmetricInt8
from polyvec.core.blocks import Codec, Extent
from polyvec.core.columns import Column

COPY32, HALF, BRAIN, AFFINE, SYMMETRIC, SCALED = range(6)
SOURCE, TARGET, COUNT, KIND, A, B, WIDTH, EXTRA = range(8)
FIELDS = 8
ALIGN = 16
TILE = 8192  # elements that one program of a kernel decodes
MAX_PIECES = 512

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """Bytes to read into a buffer: ``size`` at ``offset`` of the file, to ``at``. ``chunk`` numbers the extent."""

    offset: int
    size: int
    at: int
    chunk: int
    checked: bool


@dataclass(frozen=True, slots=True)
class Buffer:
    """One trip over the bus."""

    table: Table
    loads: tuple[Load, ...]
    tiles_at: int
    tiles: int
    rows: int  # rows of the column that are decoded when it is done

    @property
    def total(self) -> int:
        """Bytes that travel."""
        return self.tiles_at + self.tiles * 16


def kind_of(codec: Codec) -> int | None:
    """How a codec's codes are decoded on the device; None where only the CPU can."""
    if isinstance(codec, Raw):
        return {"<f4": COPY32, "<f2": HALF}.get(codec.stored.str, BRAIN if codec.stored.name == "bfloat16" else None)
    kinds = {Float16: HALF, BFloat16: BRAIN, AffineUint8: AFFINE, SymmetricInt8: SYMMETRIC, ScaledInt8: SCALED}
    return kinds.get(type(codec))


def parameters(codec: Codec) -> tuple[float, float]:
    """The two numbers a kind needs: scale and minimum, or the divisor."""
    if isinstance(codec, AffineUint8):
        return codec.scale, codec.minimum
    if isinstance(codec, SymmetricInt8):
        return codec.divisor, 0.0
    return 1.0, 0.0


def plan_buffers(column: Column, start: int, stop: int, capacity: int, first: int | None = None) -> list[Buffer] | None:
    """The buffers that bring rows ``start`` to ``stop`` to the device; None where an extent cannot travel encoded."""
    extents = list(column.extents(start, stop))
    if sum(extent.rows for extent in extents) != stop - start:
        return None
    row_shape = column.row_shape
    for extent in extents:
        if kind_of(extent.codec) is None or extent.stride is not None or extent.codec.row_bytes(row_shape) is None:
            return None
    return list(_fill(extents, row_shape, start if first is None else first, capacity))


def _fill(extents: list[Extent], row_shape: tuple[int, ...], first: int, capacity: int) -> Iterator[Buffer]:
    head = MAX_PIECES * FIELDS * 8
    dim = prod(row_shape)
    records: list[list[int]] = []
    loads: list[Load] = []
    at, rows = head, 0

    def flush() -> Buffer:
        nonlocal records, loads, at, rows
        table = np.array(records, np.int64).reshape(-1, FIELDS)
        buffer = Buffer(table, tuple(loads), at, int((-(-table[:, COUNT] // TILE)).sum()), rows)
        records, loads, at, rows = [], [], head, 0
        return buffer

    for number, extent in enumerate(extents):
        width = extent.codec.row_bytes(row_shape) or 1
        scale_bytes = 4 if isinstance(extent.codec, ScaledInt8) else 0
        a, b = parameters(extent.codec)
        done = 0
        while done < extent.rows:
            fits = (capacity - at - 2 * ALIGN) // (width + scale_bytes)
            if fits < 1 or len(records) == MAX_PIECES:
                if not records:
                    raise ValueError(f"a row of {width} bytes does not fit a buffer of {capacity}")
                yield flush()
                continue
            count = min(fits, extent.rows - done)
            part = extent.slice(done, done + count, row_shape)
            loads.append(Load(part.offset, count * width, at, number, extent.crc is not None))
            record = [
                at,
                (extent.start + done - first) * dim,
                count * dim,
                kind_of(extent.codec) or 0,
                bits(a),
                bits(b),
                dim,
                0,
            ]
            at = _aligned(at + count * width)
            if scale_bytes:
                record[EXTRA] = at
                loads.append(Load(part.others[0].offset, count * 4, at, number, False))
                at = _aligned(at + count * 4)
            records.append(record)
            rows += count
            done += count
    if records:
        yield flush()


def _aligned(at: int) -> int:
    return -(-at // ALIGN) * ALIGN


def bits(value: float) -> int:
    """A float32 as its bits: the table is made of integers."""
    return int(np.float32(value).view(np.int32))


def tiles_of(table: Table, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """For each tile, the record it belongs to and the element it starts at: shape (tiles, 2)."""
    counts = (-(-table[:, COUNT] // TILE)).tolist()
    if out is None:
        out = np.empty((sum(counts), 2), np.int64)
    at = 0
    for number, count in enumerate(counts):
        out[at : at + count, 0] = number
        out[at : at + count, 1] = np.arange(count) * TILE
        at += count
    return out
