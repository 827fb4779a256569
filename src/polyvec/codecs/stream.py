"""Rows into a sink: copied inside the kernel where they lie as they must, else block by block, on several threads."""

from __future__ import annotations

from polyvec.codecs import transcode
from polyvec.core.blocks import Codec, rows_per_block
from polyvec.core.columns import Column
from polyvec.core.errors import Corrupt
from polyvec.core.format import WriteOptions
from polyvec.core.sinks import COPY_STEP, Sink
from polyvec.kernels.threads import default_threads, spread

PARALLEL_BYTES = 32 << 20  # smaller columns are written by the caller
PIECE_BYTES = 2 << 20  # decoded: stays in the cache until it is written
STRETCH_PIECES = 8  # what a thread takes at a time


def write_rows(sink: Sink, column: Column, codec: Codec, options: WriteOptions, *, at: int | None = None) -> None:
    """Append all rows of a column, encoded by ``codec``, or put them at ``at``; progress counts rows."""
    stored = codec.row_bytes(column.row_shape)
    width = stored or 1
    segments = column.segments(codec)
    done = 0
    if segments is None:
        large = stored is not None and column.rows * stored >= PARALLEL_BYTES
        if large and column.parallel and not sink.hashing and default_threads() > 1:
            _write_spread(sink, column, codec, options, at if at is not None else sink.reserve(column.rows * width))
            return
        for block in column.blocks(options.chunk_rows, reuse=True):
            codes = transcode(block, codec).parts["codes"]
            if at is None:
                sink.write(codes)
            else:
                sink.write_at(at + done * width, codes)
            done += block.rows
            if options.progress:
                options.progress(done, column.rows)
        return
    if sum(segment.rows for segment in segments) != column.rows:
        raise Corrupt(f"the pieces of column {column.name!r} are not its {column.rows} rows", field=column.name)
    step = options.chunk_rows or max(1, COPY_STEP // width)
    for segment in segments:
        for row in range(0, segment.rows, step):
            rows = min(step, segment.rows - row)
            place = None if at is None else at + done * width
            sink.copy_from(segment.source, segment.offset + row * width, rows * width, at=place)
            done += rows
            if options.progress:
                options.progress(done, column.rows)


def _write_spread(sink: Sink, column: Column, codec: Codec, options: WriteOptions, at: int) -> None:
    """Fill reserved room: each thread decodes, encodes and writes stretches of its own."""
    width = codec.row_bytes(column.row_shape) or 1
    step = rows_per_block(column.dtype, column.row_shape, PIECE_BYTES)
    done = 0

    def work(start: int) -> int:
        stop = min(start + step * STRETCH_PIECES, column.rows)
        for block in column.blocks(step, start=start, stop=stop, reuse=True):
            sink.write_at(at + block.start * width, transcode(block, codec).parts["codes"])
        return stop - start

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        if options.progress:
            options.progress(done, column.rows)

    spread(work, range(0, column.rows, step * STRETCH_PIECES), each=count)
