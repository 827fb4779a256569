"""Rows into a sink: copied inside the kernel where they lie as they must, else block by block."""

from __future__ import annotations

from polyvec.codecs import transcode
from polyvec.core.blocks import Codec
from polyvec.core.columns import Column
from polyvec.core.format import WriteOptions
from polyvec.core.sinks import COPY_STEP, Sink


def write_rows(sink: Sink, column: Column, codec: Codec, options: WriteOptions, *, at: int | None = None) -> None:
    """Append all rows of a column, encoded by ``codec``, or put them at ``at``; progress counts rows."""
    width = codec.row_bytes(column.row_shape) or 1
    segments = column.segments(codec)
    done = 0
    if segments is None:
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
    step = options.chunk_rows or max(1, COPY_STEP // width)
    for segment in segments:
        for row in range(0, segment.rows, step):
            rows = min(step, segment.rows - row)
            place = None if at is None else at + done * width
            sink.copy_from(segment.source, segment.offset + row * width, rows * width, at=place)
            done += rows
            if options.progress:
                options.progress(done, column.rows)
