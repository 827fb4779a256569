"""Extents into an array, fast: read, check and decode piece by piece, on several threads.

A piece is small enough to stay in the second-level cache between its read, its checksum and its decoding, so each
stored byte comes from memory once; threads take whole stretches of rows, and checksums of stretches are combined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from threading import local
from typing import Any

import numpy as np

from polyvec.core.blocks import Array, Block, Extent
from polyvec.core.errors import Corrupt, FormatError
from polyvec.core.extents import Scratch, crc_error, read_extent
from polyvec.core.sources import Source
from polyvec.kernels.checksum import crc32, crc32_combine
from polyvec.kernels.threads import spread

PIECE_BYTES = 8 << 20  # decoded; from here on kernels write past the caches
STRETCH_BYTES = 32 << 20  # decoded; what a thread takes at a time


@dataclass(frozen=True, slots=True)
class Failure:
    """An extent whose bytes are not what was written: its rows in the array are of no use."""

    extent: Extent
    error: FormatError


def load_extents(
    source: Source,
    extents: Iterable[Extent],
    row_shape: tuple[int, ...],
    out: Array,
    *,
    start: int = 0,
    check: bool = True,
    threads: int | None = None,
) -> list[Failure]:
    """Fill ``out`` with the rows of ``extents``; row ``start`` of the column is row 0 of ``out``.

    Extents whose codec cannot be sliced may stick out of ``out`` at both ends. Returns those that fail their
    checksum or cannot be decoded (in order); a file that ends too early raises.
    """
    sliceable: list[Extent] = []
    failures: list[Failure] = []
    scratch = Scratch()
    covered = 0
    for extent in extents:
        covered += max(0, min(start + len(out), extent.start + extent.rows) - max(start, extent.start))
        if extent.codec.row_bytes(row_shape) is None:
            failures += _load_whole(source, extent, row_shape, out, start, check, scratch)
        else:
            sliceable.append(extent)
    if covered != len(out):
        # What no extent fills would be whatever was in memory before.
        raise Corrupt(
            "the pieces do not hold the rows asked for",
            path=source.label,
            expected=f"{len(out)} rows from {start} on",
            found=f"{covered} rows",
        )
    width = out.dtype.itemsize * prod(row_shape)
    step = max(1, -(-PIECE_BYTES // max(1, width)))
    span = max(step, STRETCH_BYTES // max(1, width) // step * step)
    tasks = [(extent, at, min(at + span, extent.rows)) for extent in sliceable for at in range(0, extent.rows, span)]
    if out.nbytes < PIECE_BYTES:
        threads = 1  # starting one costs more
    sums = spread(_Worker(source, row_shape, out, start, step, check), tasks, threads)
    return sorted(failures + (_compare(source, tasks, sums) if check else []), key=lambda f: f.extent.start)


def _load_whole(
    source: Source, extent: Extent, row_shape: tuple[int, ...], out: Array, start: int, check: bool, scratch: Scratch
) -> list[Failure]:
    low, high = max(start, extent.start), min(start + len(out), extent.start + extent.rows)
    if low >= high:
        return []
    try:
        block = read_extent(source, extent, row_shape, scratch, check=check)
        if high - low == extent.rows and out.flags.c_contiguous:
            block.decode(out[low - start : high - start])
        else:
            out[low - start : high - start] = block.decode()[low - extent.start : high - extent.start]
    except FormatError as error:
        error.offset = extent.offset if error.offset is None else error.offset
        if error.offset + extent.size > source.size:
            raise
        return [Failure(extent, error.located(source.label))]
    return []


class _Worker:
    """Reads, sums and decodes the rows of one stretch; returns the checksum of its stored bytes."""

    def __init__(self, source: Source, row_shape: tuple[int, ...], out: Array, start: int, step: int, check: bool):
        self.source, self.row_shape, self.out, self.start = source, row_shape, out, start
        self.step, self.check = step, check
        self._own = local()

    def __call__(self, task: tuple[Extent, int, int]) -> int:
        extent, first, last = task
        crc = 0
        summed = self.check and extent.crc is not None
        direct = extent.codec.name == "raw" and extent.codec.dtype == self.out.dtype and self.out.flags.c_contiguous
        plain = extent.stride is None and not extent.others
        if plain and extent.codec.cast and self.out.dtype == np.float32 and self.out.flags.c_contiguous:
            piece = extent.slice(first, last, self.row_shape)
            target = self.out[piece.start - self.start : piece.start - self.start + piece.rows]
            found = self.source.read_cast(piece.offset, piece.size, target, extent.codec.cast, check=summed)
            if found is not None:
                return found
        for at in range(first, last, self.step):
            end = min(at + self.step, last)
            piece = extent.slice(at, end, self.row_shape)
            place = piece.start - self.start
            target = self.out[place : place + piece.rows]
            if plain and direct:
                codes = target
                self.source.read_into(piece.offset, codes)
            elif plain:
                dtype, shape = extent.codec.parts(self.row_shape)["codes"]
                codes = self._scratch(piece.size).view(dtype).reshape(piece.rows, *shape)
                self.source.read_into(piece.offset, codes)
                _decode(Block(piece.start, {"codes": codes}, extent.codec, piece.rows), target)
            else:
                block = read_extent(self.source, piece, self.row_shape)
                codes = block.parts["codes"]
                _decode(block, target)
            if summed:
                crc = crc32(codes, crc)
        return crc

    def _scratch(self, size: int) -> Array:
        buffer: Array | None = getattr(self._own, "buffer", None)
        if buffer is None or buffer.size < size:
            buffer = self._own.buffer = np.empty(size, np.uint8)
        return buffer[:size]


def _decode(block: Block, target: Array) -> None:
    if target.flags.c_contiguous and target.dtype == block.codec.dtype:
        block.decode(target)
    else:
        np.copyto(target, block.decode(), casting="same_kind")


def _compare(source: Source, tasks: Sequence[tuple[Extent, int, int]], sums: Sequence[int]) -> list[Failure]:
    found: dict[int, tuple[Extent, int]] = {}
    for (extent, first, last), crc in zip(tasks, sums):
        if extent.crc is None:
            continue
        size = extent.size // extent.rows * (last - first)
        before = found.get(extent.offset)
        found[extent.offset] = (extent, crc if before is None else crc32_combine(before[1], crc, size))
    return [Failure(extent, crc_error(source, extent, crc)) for extent, crc in found.values() if crc != extent.crc]


def fill_failures(failures: Sequence[Failure], out: Array, start: int, value: Any) -> list[tuple[int, int]]:
    """Overwrite the rows of failed extents with ``value``; returns their ranges, counted in the column."""
    ranges = []
    for failure in failures:
        low = max(start, failure.extent.start)
        high = min(start + len(out), failure.extent.start + failure.extent.rows)
        out[low - start : high - start] = value
        ranges.append((low, high))
    return ranges
