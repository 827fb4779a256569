"""Extents read: from the bytes of a file to blocks in memory, still encoded, their checksums compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.core.blocks import Array, Block, Extent, Raw
from polyvec.core.errors import Corrupt, FormatError
from polyvec.core.sources import Source
from polyvec.kernels.checksum import crc32

RANGES_BYTES = 32 << 20  # so much of a source is asked for at once


class Scratch:
    """Buffers that successive blocks share, so that a stream touches no new pages."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array over the buffer of this name, which grows as needed; what it held before is gone."""
        size = int(np.prod(shape)) * dtype.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < size:
            buffer = self._buffers[name] = np.empty(size, np.uint8)
        return buffer[:size].view(dtype).reshape(shape)


def read_extent(
    source: Source, extent: Extent, row_shape: tuple[int, ...], scratch: Scratch | None = None, *, check: bool = False
) -> Block:
    """Read an extent into a block, still encoded."""
    make = scratch.array if scratch else lambda _name, shape, dtype: np.empty(shape, dtype)
    types = extent.codec.parts(row_shape)
    places = {part.name: part.offset for part in extent.others}
    parts: dict[str, Array] = {}
    for name, (dtype, shape) in types.items():
        if name == "codes" and extent.codec.row_bytes(row_shape) is None:
            array = make(name, (extent.size,), np.dtype(np.uint8))
            source.read_into(extent.offset, array)
        elif name == "codes" and extent.stride is not None:
            width = dtype.itemsize * int(np.prod(shape))
            span = (extent.rows - 1) * extent.stride + width if extent.rows else 0
            raw = make(name, (span,), np.dtype(np.uint8))
            source.read_into(extent.offset, raw)
            strided = np.lib.stride_tricks.as_strided(raw, (extent.rows, width), (extent.stride, 1), writeable=False)
            array = np.ascontiguousarray(strided).view(dtype).reshape(extent.rows, *shape)
        else:
            array = make(name, (extent.rows, *shape), dtype)
            source.read_into(extent.offset if name == "codes" else places[name], array)
        parts[name] = array
    if check and extent.crc is not None and (found := crc_of(parts["codes"], 0)) != extent.crc:
        raise crc_error(source, extent, found)
    return Block(extent.start, parts, extent.codec, extent.rows)


def read_runs(
    source: Source,
    runs: Sequence[tuple[int, int]],
    row_shape: tuple[int, ...],
    *,
    find: Callable[[int, int], Iterable[Extent]],
    read: Callable[[int, int], Array],
) -> Iterator[Array]:
    """The decoded rows of several stretches, many asked for at once; ``read`` reads what does not lie packed."""
    at = 0
    while at < len(runs):
        held: list[list[Extent]] = []
        size = 0
        while at + len(held) < len(runs) and size < RANGES_BYTES:
            start, stop = runs[at + len(held)]
            extents = list(find(start, stop))
            if not _is_packed(extents, start, stop, row_shape):
                break
            held.append(extents)
            size += sum(extent.size for extent in extents)
        yield from _read_packed(source, held, row_shape)
        at += len(held)
        if not held:
            yield read(*runs[at])
            at += 1


def _read_packed(source: Source, runs: Sequence[Sequence[Extent]], row_shape: tuple[int, ...]) -> Iterator[Array]:
    found = iter(source.read_ranges([(extent.offset, extent.size) for extents in runs for extent in extents]))
    for extents in runs:
        rows = []
        for extent in extents:
            dtype, shape = extent.codec.parts(row_shape)["codes"]
            codes = np.frombuffer(next(found), dtype).reshape(extent.rows, *shape)
            rows.append(Block(extent.start, {"codes": codes}, extent.codec, extent.rows).decode())
        yield rows[0] if len(rows) == 1 else np.concatenate(rows)


def _is_packed(extents: Sequence[Extent], start: int, stop: int, row_shape: tuple[int, ...]) -> bool:
    """Whether extents hold just the rows ``start`` to ``stop``, each in one range whose bytes are its codes."""
    at = start
    for extent in extents:
        sliceable = extent.codec.row_bytes(row_shape) is not None
        if not sliceable or extent.stride is not None or extent.others or extent.crc is not None or extent.start != at:
            return False
        at += extent.rows
    return at == stop


def decoded_slices(block: Block, low: int, high: int, rows: int) -> Iterator[Block]:
    """Raw blocks of a block whose codes cannot be sliced: it is decoded once, then cut."""
    if low == 0 and high == block.rows and block.rows <= rows:
        yield block
        return
    decoded = block.decode()
    codec = Raw(decoded.dtype)
    for at in range(low, high, rows):
        end = min(at + rows, high)
        yield Block(block.start + at, {"codes": decoded[at:end]}, codec, end - at)


def crc_of(array: Array, value: int) -> int:
    """The CRC-32 of an array's bytes, after ``value``."""
    return crc32(array.reshape(-1).view(np.uint8), value)


def crc_error(source: Source, extent: Extent, found: int) -> FormatError:
    """The error for an extent whose bytes have another checksum."""
    return Corrupt(
        f"rows {extent.start} to {extent.start + extent.rows - 1} fail their checksum",
        path=source.label,
        offset=extent.offset,
        field="crc32",
        expected=f"{extent.crc:#010x}",
        found=f"{found:#010x}",
        remedy="restore the file from its source",
    )
