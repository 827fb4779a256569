"""What goes over the bus: a column's extents cut into pieces, and pieces gathered into buffers.

A buffer is one copy and one launch. It starts with its own table, so that nothing else has to travel::

    table     int64 [pieces][FIELDS]    SOURCE, TARGET, COUNT, KIND, A and B (float bits), WIDTH, EXTRA
    payloads  each at a multiple of 16 bytes, whatever its offset in the file was
    tiles     int64 [tiles][2]          record, first element: which program of the kernel decodes what

SOURCE and EXTRA count bytes in the buffer, TARGET and COUNT elements of the output. ``kind`` says how codes become
values: the same numbers in CUDA, Triton and the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
HEAD = MAX_PIECES * FIELDS * 8  # bytes kept for the table
FIRST = 1 << 20  # bytes of the first buffer

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Buffer:
    """One trip over the bus.

    ``loads`` are the ranges to read, int64 [n][3]: offset in the file, bytes, place in the buffer. ``chunks`` gives for
    each the extent whose checksum it counts towards, by its number, or -1.
    """

    table: Table
    loads: NDArray[np.int64]
    chunks: tuple[int, ...]
    tiles_at: int
    tiles: int

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


def find_extents(column: Column, start: int, stop: int, capacity: int) -> list[Extent] | None:
    """The extents of rows ``start`` to ``stop``; None where one cannot travel encoded in buffers of ``capacity``."""
    extents = list(column.extents(start, stop))
    if sum(extent.rows for extent in extents) != stop - start:
        return None
    for extent in extents:
        if kind_of(extent.codec) is None or extent.stride is not None:
            return None
        width = extent.codec.row_bytes(column.row_shape)
        if not width or HEAD + width + _scale_bytes(extent.codec) + 2 * ALIGN > capacity:
            return None
    return extents


def fill_buffers(extents: Iterable[Extent], row_shape: tuple[int, ...], first: int, capacity: int) -> Iterator[Buffer]:
    """The buffers that bring the extents to the device, one at a time: the first is read before the next is planned.

    ``first`` is the row that the output starts with. The first buffers are small, so that the bus does not wait long for
    the file; each is twice the one before it, up to ``capacity``.
    """
    dim = prod(row_shape)
    room = min(FIRST, capacity)
    records: list[tuple[int, ...]] = []
    loads: list[tuple[int, int, int]] = []
    chunks: list[int] = []
    at = HEAD

    def flush() -> Buffer:
        table = np.array(records, np.int64)
        tiles = sum(-(-record[COUNT] // TILE) for record in records)
        return Buffer(table, np.array(loads, np.int64), tuple(chunks), at, tiles)

    for number, extent in enumerate(extents):
        width = extent.codec.row_bytes(row_shape) or 1
        scale_bytes = _scale_bytes(extent.codec)
        kind = kind_of(extent.codec) or 0
        a, b = (bits(value) for value in parameters(extent.codec))
        chunk = -1 if extent.crc is None else number
        done = 0
        while done < extent.rows:
            fits = (room - at - 2 * ALIGN) // (width + scale_bytes)
            if fits < 1 or len(records) == MAX_PIECES:
                if records:
                    yield flush()
                    records, loads, chunks, at = [], [], [], HEAD
                elif room == capacity:
                    raise ValueError(f"a row of {width} bytes does not fit a buffer of {capacity}")
                room = min(2 * room, capacity)
                continue
            count = min(fits, extent.rows - done)
            source, extra = at, 0
            loads.append((extent.offset + done * width, count * width, source))
            chunks.append(chunk)
            at = _aligned(at + count * width)
            if scale_bytes:
                extra = at
                loads.append((extent.others[0].offset + done * scale_bytes, count * scale_bytes, extra))
                chunks.append(-1)
                at = _aligned(at + count * scale_bytes)
            records.append((source, (extent.start + done - first) * dim, count * dim, kind, a, b, dim, extra))
            done += count
    if records:
        yield flush()


def most_bytes(capacity: int) -> int:
    """What a buffer of ``capacity`` can come to with its tiles."""
    return _aligned(capacity) + (capacity // TILE + MAX_PIECES) * 16


def _scale_bytes(codec: Codec) -> int:
    """Bytes a row of a second part: the scales of `ScaledInt8`."""
    return 4 if isinstance(codec, ScaledInt8) else 0


def _aligned(at: int) -> int:
    return -(-at // ALIGN) * ALIGN


def bits(value: float) -> int:
    """A float32 as its bits: the table is made of integers."""
    return int(np.float32(value).view(np.int32))


def tiles_of(table: Table, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """For each tile, the record it belongs to and the element it starts at: shape (tiles, 2)."""
    counts = -(-table[:, COUNT] // TILE)
    ends = counts.cumsum()
    total = int(ends[-1])
    if out is None:
        out = np.empty((total, 2), np.int64)
    out[:, 0] = np.arange(len(table)).repeat(counts)
    np.multiply(np.arange(total) - (ends - counts).repeat(counts), TILE, out=out[:, 1])
    return out
