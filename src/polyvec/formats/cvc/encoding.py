"""What is written where: the compression of each column, the rows of each chunk, and rows into payloads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from polyvec.codecs import AffineUint8, BFloat16, BytePlanes, Float16, Raw, SymmetricInt8
from polyvec.codecs import shifted_symmetric as shifted
from polyvec.codecs.affine import refuse_non_finite
from polyvec.codecs.planes import MAX_VALUES
from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Codec, Extent, rows_per_block
from polyvec.core.columns import ArrayColumn, Column, FileColumn, same_codes
from polyvec.core.errors import InputError
from polyvec.formats.cvc.payloads import as_float32, encode_block, write_planes, write_stretches
from polyvec.formats.cvc.structure import COMPRESSIONS, DTYPES, ColumnSpec, Json
from polyvec.formats.cvc.writer import MAX_CHUNK_BYTES, WIDE_COUNT, WIDE_NUMBER, ChunkWriter

ENCODINGS = {"raw": "none", "float16": "fp16", "int8": "int8", "lossless": "lossless", "bfloat16": "bfloat16"}
NAMES = {compression: encoding for encoding, compression in ENCODINGS.items()}
CHUNK_ROWS = 100_000
LOSSLESS_BYTES = 64 << 20  # decoded: a lossless chunk is encoded as a whole, so it bounds the memory
PIECE_BYTES = 4 << 20  # decoded: what is encoded at a time


@dataclass(frozen=True, slots=True)
class Target:
    """How one column is written. ``compression`` None keeps what each piece has."""

    spec: ColumnSpec
    compression: str | None
    allow_overflow: bool = False


def check_compression(name: str) -> str:
    """The name, where it is one; `InputError` otherwise."""
    if name not in COMPRESSIONS:
        raise InputError(f"unknown compression {name!r}; there are {', '.join(COMPRESSIONS)}")
    return name


def choose(
    column: Column, asked: str | None, *, columnar: bool, own: bool = False, allow_overflow: bool = False
) -> Target:
    """The target of a column: the compression asked for, else what keeps every value and, where it can, every byte.

    ``own`` says that the column comes from a CVC file, whose raw pieces stay raw.
    """
    if len(column.shape) > 2:
        raise InputError(f"column {column.name!r}: CVC holds rows of numbers, not shape {column.shape}")
    if column.rows and 0 in column.row_shape:
        raise InputError(f"column {column.name!r}: rows of dimension 0 cannot be stored")
    if asked is None:
        compression, keep = _kept(column, columnar or own)
    else:
        compression, keep = check_compression(asked), False
    dtype = column.dtype.newbyteorder("<") if column.dtype.itemsize > 1 else column.dtype
    if compression != "none" and column.dtype.kind not in "fV":
        if columnar:
            raise InputError(f"column {column.name!r} holds {column.dtype}; only 'none' keeps whole numbers")
        dtype = np.dtype("<f4")
    if column.dtype == np.dtype(ml_dtypes.bfloat16):
        dtype = np.dtype("<f4")
    if dtype.name not in DTYPES:
        raise InputError(
            f"column {column.name!r} holds {column.dtype}, which CVC does not; there are {', '.join(DTYPES)}"
        )
    spec = ColumnSpec(column.name, column.row_shape, dtype, compression)
    return Target(spec, None if keep else compression, allow_overflow)


def _kept(column: Column, raw: bool) -> tuple[str, bool]:
    """The compression that keeps a column as it is, and whether each piece keeps its own bytes."""
    codecs = {extent.codec for extent in column.extents()} or ({column.codec} if column.codec is not None else set())
    names = {compression_of(codec, raw) for codec in codecs}
    if codecs and None not in names:
        name = sorted(str(name) for name in names)[0]
        plain = all(isinstance(codec, Raw) for codec in codecs)
        return name, len(names) > 1 or (name in ("int8", "lossless") and not plain)
    if column.encoding in ("float16", "bfloat16"):
        return ENCODINGS[column.encoding], False  # exact again, whoever decoded the rows
    return ("none" if raw or column.dtype != np.float32 else "lossless"), False


def compression_of(codec: Codec, raw: bool) -> str | None:
    """What a codec's bytes are called; None where they must be decoded. Raw float32 is ``lossless`` unless ``raw``."""
    if isinstance(codec, Float16) or (isinstance(codec, Raw) and codec.dtype == np.float16):
        return "fp16"
    if isinstance(codec, BFloat16) or (isinstance(codec, Raw) and codec.dtype == np.dtype(ml_dtypes.bfloat16)):
        return "bfloat16"
    if isinstance(codec, AffineUint8) or codec == SymmetricInt8(127.0):
        return "int8"
    if isinstance(codec, BytePlanes):
        return "lossless"
    if isinstance(codec, Raw):
        return "none" if raw or codec.dtype != np.float32 else "lossless"
    return None


def partition(
    columns: Mapping[str, Column], targets: Sequence[Target], chunk_rows: int | None, own: bool
) -> list[range]:
    """The rows of each chunk: as asked, as the source (a CVC file of its own) has them, or 100,000.

    Never more than a chunk may hold; pieces that keep their bytes are never joined.
    """
    rows = next(iter(columns.values())).rows
    cuts = {0, rows}
    for target in targets:
        if target.compression is None or (own and chunk_rows is None):
            cuts.update(extent.start for extent in columns[target.spec.name].extents())
    encoded_whole = any(target.compression == "lossless" for target in targets)
    usual = default_rows(targets) if encoded_whole or not own else most_rows(targets)
    step = min(chunk_rows or usual, most_rows(targets))
    edges = sorted(cuts)
    return [range(at, min(at + step, high)) for low, high in pairwise(edges) for at in range(low, high, step)]


def row_bytes(target: Target) -> int:
    """The most bytes a row can take."""
    width = {"fp16": 2, "bfloat16": 2, "int8": 1, "lossless": 4}.get(target.compression or "", 0)
    return (width or max(4, target.spec.dtype.itemsize)) * target.spec.dimension


def most_rows(targets: Sequence[Target]) -> int:
    """The most rows a chunk may have: its length is a u32, and so is a lossless payload's count."""
    width = sum(row_bytes(target) for target in targets)
    slack = 2048 * len(targets)  # the head and dictionaries of a lossless payload
    most = (MAX_CHUNK_BYTES - slack) // max(1, width)
    for target in targets:
        if target.spec.compression == "lossless":
            most = min(most, MAX_VALUES // max(1, target.spec.dimension))
    if most < 1:
        raise InputError(f"a row of {width} bytes does not fit a chunk of {MAX_CHUNK_BYTES}")
    return most


def default_rows(targets: Sequence[Target]) -> int:
    """100,000 rows, or as many as make a lossless chunk that memory holds easily."""
    if any(target.spec.compression == "lossless" for target in targets):
        width = sum(4 * target.spec.dimension for target in targets)
        return max(1, min(CHUNK_ROWS, LOSSLESS_BYTES // max(1, width)))
    return CHUNK_ROWS


def widest(target: Target, columnar: bool) -> Json:
    """The JSON of a piece with the widest numbers it can have."""
    place: Json = {"compression": "bfloat16"}
    if target.compression in (None, "int8"):
        place |= {"min": WIDE_NUMBER, "scale": WIDE_NUMBER}
    return place | ({"offset": WIDE_COUNT, "size": WIDE_COUNT, "crc32": WIDE_COUNT} if columnar else {})


def write_piece(
    writer: ChunkWriter,
    place: Json,
    column: Column,
    rows: range,
    target: Target,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write rows of a column as the current part of a chunk; ``place`` gets its compression and parameters."""
    extents = list(column.extents(rows.start, rows.stop))
    first = writer.rows - len(rows)  # errors name rows of the file
    codec, compression = _codec(column, extents, rows, target, first)
    place["compression"] = compression
    if isinstance(codec, AffineUint8):
        place["min"], place["scale"] = codec.minimum, codec.scale
    whole = (
        extents[0] if len(extents) == 1 and extents[0].rows == len(rows) and extents[0].start == rows.start else None
    )
    if isinstance(column, FileColumn) and whole is not None and _lies_as(whole, codec, column):
        writer.copy(column.source, whole.offset, whole.size, whole.crc)
        if progress:
            progress(len(rows))
        return
    if isinstance(codec, BytePlanes):
        write_planes(writer, _array(column, rows), progress)
        return
    if column.parallel and len(rows) * _decoded_row(column) > PIECE_BYTES:
        write_stretches(writer, column, rows, codec, first, progress)
        return
    step = rows_per_block(column.dtype, column.row_shape, PIECE_BYTES)
    for block in column.blocks(step, start=rows.start, stop=rows.stop, reuse=True):
        codes = encode_block(block, codec, first + block.start - rows.start)
        # The caller's array stays as it is; a shared buffer is filled again before this is written.
        writer.write(codes if isinstance(column, ArrayColumn) else codes.copy())
        if progress:
            progress(block.rows)


def _lies_as(extent: Extent, codec: Codec, column: Column) -> bool:
    """Whether the bytes of an extent are those that the codec would store."""
    return extent.stride is None and not extent.others and same_codes(extent.codec, codec, column.row_shape)


def _codec(column: Column, extents: list[Extent], rows: range, target: Target, first: int) -> tuple[Codec, str]:
    """The codec of one piece: that of its bytes where they can stay, else the target's, fitted to the rows."""
    sources = {extent.codec for extent in extents} or ({column.codec} if column.codec else set())
    own = sources.pop() if len(sources) == 1 else None
    compression = target.compression or (compression_of(own, True) if own is not None else None) or "lossless"
    if compression == "int8":
        if isinstance(own, AffineUint8):
            return own, compression
        if own == SymmetricInt8(127.0) and _shiftable(column, rows):
            return shifted(), compression
        if target.compression is None:
            return BytePlanes(column.row_shape), "lossless"  # fitting anew would lose what nobody asked to lose
        return _fit(column, rows, first), compression
    if compression == "fp16":
        return Float16(target.allow_overflow), compression
    if compression == "lossless":
        return BytePlanes(column.row_shape), compression
    return (BFloat16() if compression == "bfloat16" else Raw(target.spec.dtype)), compression


def _shiftable(column: Column, rows: range) -> bool:
    """Whether no code is -128: the shift by 127 must not leave the byte."""
    return not any(
        block.parts["codes"].size and block.parts["codes"].min() == -128
        for block in column.blocks(start=rows.start, stop=rows.stop, reuse=True)
    )


def _fit(column: Column, rows: range, first: int) -> AffineUint8:
    step = rows_per_block(
        column.dtype, column.row_shape, MAX_BLOCK_BYTES if isinstance(column, ArrayColumn) else PIECE_BYTES
    )
    try:
        return AffineUint8.fit(_decoded(column, rows, step))
    except InputError:
        for piece in _decoded(column, rows, step):
            refuse_non_finite(piece, first)
            first += len(piece)
        raise


def _decoded_row(column: Column) -> int:
    return int(np.prod(column.row_shape, dtype=np.int64)) * column.dtype.itemsize


def _decoded(column: Column, rows: range, step: int) -> Iterator[Array]:
    for block in column.blocks(step, start=rows.start, stop=rows.stop, reuse=True):
        yield as_float32(block.decode())


def _array(column: Column, rows: range) -> Array:
    """Rows in one float32 array: a view where they are in memory already."""
    if isinstance(column, ArrayColumn) and (view := column.view()) is not None:
        return as_float32(view[rows.start : rows.stop])
    return as_float32(column[rows.start : rows.stop])


def declared(target: Target) -> Json:
    """A column as the header of a columnar file declares it."""
    spec = target.spec
    return {"name": spec.name, "dimension": spec.dimension, "dtype": spec.dtype.name, "compression": spec.compression}


class Sections:
    """Sections in order, and which of them lie in a chunk."""

    def __init__(self, sections: Sequence[tuple[int, int, Mapping[str, Any]]]) -> None:
        self.all = list(sections)
        self._stops = [stop for _, stop, _ in self.all]

    def header(self) -> list[Json]:
        """The header's list."""
        return [
            {"start_index": start, "end_index": stop, "num_vectors": stop - start, "metadata": dict(metadata)}
            for start, stop, metadata in self.all
        ]

    def inside(self, rows: range) -> list[Json]:
        """The parts that lie in a chunk, as its JSON has them."""
        found = []
        for start, stop, metadata in self.all[bisect_right(self._stops, rows.start) :]:
            if start >= rows.stop:
                break
            found.append(
                {
                    "metadata": dict(metadata),
                    "start_in_chunk": max(start, rows.start) - rows.start,
                    "end_in_chunk": min(stop, rows.stop) - rows.start,
                    "section_start": start,
                    "section_end": stop,
                }
            )
        return found
