"""Rows into payloads, fast: stretches of rows are encoded, summed and written by several threads, each in its place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyvec.codecs import Float16, Raw, shortcut
from polyvec.codecs.float16 import BFloat16, refuse_brain_overflow, refuse_overflow
from polyvec.codecs.planes import Plan
from polyvec.core.blocks import Array, Block, Codec, cast, rows_per_block
from polyvec.core.columns import Column
from polyvec.formats.cvc.writer import ChunkWriter
from polyvec.kernels.checksum import crc32, crc32_combine
from polyvec.kernels.planes import PLANES, packed_size
from polyvec.kernels.threads import spread

PIECE_BYTES = 4 << 20  # decoded; what is asked of the column at a time
STRETCH_PIECES = 4  # what a thread takes at a time

Progress = Callable[[int], None] | None


def encode_block(block: Block, codec: Codec, first: int) -> Array:
    """The codes of a block; ``first`` is its row in the file."""
    quick = shortcut(block, codec)
    if quick is not None:
        return np.ascontiguousarray(quick.parts["codes"])
    values = block.decode()
    if isinstance(codec, Raw):
        return np.ascontiguousarray(codec.encode(values)["codes"])
    values = as_float32(values)
    return codec.encode(values, first)["codes"]


def _encode_into(writer: ChunkWriter, offset: int, block: Block, codec: Codec, first: int) -> int:
    """Encode a block straight into the file; returns the CRC-32 of its codes."""
    assert codec.cast is not None
    values = as_float32(block.decode())
    crc, numbers = writer.sink.write_cast(offset, values, codec.cast)
    if not numbers and isinstance(codec, Float16) and not codec.allow_overflow:
        refuse_overflow(values, first)
    elif not numbers and isinstance(codec, BFloat16):
        refuse_brain_overflow(values, first)
    return crc


def as_float32(rows: Array) -> Array:
    """Rows as float32: floats may round, whole numbers must not."""
    return np.ascontiguousarray(cast(rows, np.dtype(np.float32)))


def write_stretches(
    writer: ChunkWriter, column: Column, rows: range, codec: Codec, first: int, progress: Progress
) -> None:
    """Write rows whose codes have a fixed width. Columns must allow reads from several threads."""
    width = codec.row_bytes(column.row_shape)
    assert width is not None
    offset = writer.reserve(len(rows) * width)
    step = rows_per_block(column.dtype, column.row_shape, PIECE_BYTES)

    def work(stretch: range) -> tuple[int, int]:
        crc, at = 0, offset + (stretch.start - rows.start) * width
        for block in column.blocks(step, start=stretch.start, stop=stretch.stop, reuse=True):
            if codec.cast is not None and shortcut(block, codec) is None:
                found = _encode_into(writer, at, block, codec, first + block.start - rows.start)
                crc = crc32_combine(crc, found, block.rows * width)
            else:
                codes = encode_block(block, codec, first + block.start - rows.start)
                crc = crc32(codes, crc)
                writer.place(at, codes)
            at += block.rows * width
        return crc, len(stretch)

    total = 0

    def settle(found: tuple[int, int]) -> None:
        nonlocal total
        total = crc32_combine(total, found[0], found[1] * width)
        if progress:
            progress(found[1])

    spread(work, _stretches(rows, step * STRETCH_PIECES), each=settle)
    writer.summed(total)


def write_planes(writer: ChunkWriter, rows: Array, progress: Progress) -> None:
    """Write rows as byte planes: every stretch puts its codes into its place in each of the four."""
    flat = rows.reshape(-1)
    plan = Plan.fit(flat.size, [rows])
    heads, starts, bits = plan.heads, plan.starts, plan.bits
    offset = writer.reserve(plan.size)
    step = PIECE_BYTES // 32 * 8  # values: a multiple of 8 makes whole bytes in every plane

    def work(stretch: range) -> list[int]:
        sums = [0] * PLANES
        for at in range(stretch.start, stretch.stop, step):
            piece = flat[at : min(at + step, stretch.stop)]
            for plane in range(PLANES):
                codes = plan.pack(plane, piece)
                sums[plane] = crc32(codes, sums[plane])
                writer.place(offset + starts[plane] + at // 8 * bits[plane], codes)
        return sums

    stretches = _stretches(range(flat.size), step * STRETCH_PIECES)
    found = spread(work, stretches)
    total = 0
    for plane, head in enumerate(heads):
        writer.place(offset + starts[plane] - len(head), np.frombuffer(head, np.uint8))
        total = crc32(head, total)
        for sums, stretch in zip(found, stretches):
            total = crc32_combine(total, sums[plane], packed_size(len(stretch), bits[plane]))
    writer.summed(total)
    if progress:
        progress(len(rows))


def _stretches(rows: range, step: int) -> list[range]:
    return [range(at, min(at + step, rows.stop)) for at in range(rows.start, rows.stop, step)]
