"""The chunks of a finalfusion file: found, measured and checked, without reading rows.

`read_file` walks header and chunks once and returns a `File`: where everything lies and what it says. Both dialects are
understood; the length of a chunk settles what the two leave open (field order, padding, dense or quantised).
"""

from __future__ import annotations

import struct
import tomllib
from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt, FormatError, Truncated, Unsupported
from polyvec.core.layout import Cursor, Span
from polyvec.core.sources import Source
from polyvec.formats.finalfusion.structure import (
    BUCKET,
    CHUNK,
    DENSE,
    DOCUMENT_SIMPLE,
    DOCUMENT_STORAGE,
    HEADER,
    MAGIC,
    MAX_CHUNKS,
    METADATA,
    NAMES,
    NDARRAY,
    NDNORMS,
    NORMS,
    PRODUCT,
    QUANTIZED,
    SIMPLE,
    TYPES,
    VOCABS,
    Chunk,
    File,
    Matrix,
    paddings,
)
from polyvec.formats.finalfusion.vocabs import read_words


def read_file(source: Source, *, lossy: bool = False) -> File:
    """Walk the file. Raises a `FormatError` that names offset and field wherever it contradicts itself."""
    head = HEADER.read(source)
    if head["magic"] != MAGIC:
        raise Corrupt(
            "not a finalfusion file", offset=0, field="magic", expected=repr(MAGIC), found=repr(head["magic"])
        )
    if head["version"] != 0:
        raise Unsupported("unknown finalfusion version", offset=4, field="version", expected=0, found=head["version"])
    count = head["n_chunks"]
    if not 1 <= count <= MAX_CHUNKS or HEADER.size + 4 * count > source.size:
        raise Corrupt(
            "the header promises more chunks than the file can hold",
            offset=8,
            field="n_chunks",
            expected="1 or more, with an identifier each",
            found=count,
        )
    ids = list(struct.unpack(f"<{count}I", source.read_at(HEADER.size, 4 * count)))
    file = File(dialect=_dialect(ids))
    file.spans += HEADER.spans(0, head)
    file.spans.append(Span(HEADER.size, 4 * count, "header.chunk_ids", ", ".join(map(str, ids[:12]))))
    cursor = Cursor(source, HEADER.size + 4 * count)
    for number, expected in enumerate(ids):
        if expected == NORMS and number == count - 1 and cursor.left == 0:
            raise Truncated("the file ends before its norms", offset=cursor.offset, field="chunk")
        _read_chunk(file, source, cursor, expected, lossy)
    if file.words is None or file.matrix is None:
        missing = "vocabulary" if file.words is None else "matrix"
        raise Corrupt(
            f"the file has no {missing} chunk",
            offset=8,
            field="chunk_ids",
            expected="a vocabulary, then a matrix",
            found=str(ids[:12]),
        )
    _read_unlisted_norms(file, source, cursor)
    if cursor.left:
        file.notes.append(f"{cursor.left} bytes after the last chunk, from byte {cursor.offset} on, are ignored")
        file.spans.append(Span(cursor.offset, cursor.left, "extra", "not part of the format"))
    _check_rows(file)
    return file


def _dialect(ids: list[int]) -> str:
    """The document numbers its chunks otherwise: vocabulary 0 or 3, then any matrix as 1."""
    known = [chunk for chunk in ids if chunk != METADATA]
    marked = known[:1] == [DOCUMENT_SIMPLE] or known[:2] == [BUCKET, DOCUMENT_STORAGE]
    return "document" if marked else "reference"


def _read_chunk(file: File, source: Source, cursor: Cursor, expected: int, lossy: bool) -> None:
    offset = cursor.offset
    head = cursor.read(CHUNK)
    if head["id"] != expected:
        raise Corrupt(
            "a chunk is not the one the header lists",
            offset=offset,
            field="chunk.id",
            expected=expected,
            found=head["id"],
        )
    kind = _kind(file, expected)
    name = NAMES.get(kind, f"chunk {expected}")
    start, length = cursor.offset, head["len"]
    if length > cursor.left:
        raise Truncated(
            f"the file ends inside {name}",
            offset=offset + 4,
            field="chunk.len",
            expected=f"{length} bytes",
            found=f"{cursor.left} bytes",
        )
    file.spans += [*CHUNK.spans(offset, head)[:1], Span(offset + 4, 8, "chunk.len", f"{length}: {name}")]
    stop = start + length
    if kind == METADATA:
        _order(file, file.words is None and file.toml is None, offset, name)
        _read_metadata(file, cursor, length)
    elif kind in VOCABS:
        _order(file, file.words is None, offset, name)
        stop = read_words(file, source, kind, start, stop, lossy)
    elif kind in (NDARRAY, QUANTIZED):
        _order(file, file.words is not None and file.matrix is None, offset, name)
        file.matrix = _read_matrix(file, source, kind, start, stop)
    elif kind == NORMS:
        _order(file, file.matrix is not None and file.norms is None, offset, name)
        _read_norms(file, source, start, stop)
    else:
        file.unknown.append(Chunk(expected, offset, start, stop, name))
        file.notes.append(f"chunk {expected} at byte {offset} ({length} bytes) is not known; it is kept, not read")
        file.spans.append(Span(start, length, name, "not known"))
    file.chunks.append(Chunk(expected, offset, start, stop, name))
    cursor.offset = stop


def _kind(file: File, chunk: int) -> int:
    """The reference's number of a chunk; the document's own numbers depend on what came before."""
    if file.dialect == "document":
        if chunk == DOCUMENT_SIMPLE:
            return SIMPLE
        if chunk == DOCUMENT_STORAGE:
            return NDARRAY
    return chunk


def _order(file: File, fine: bool, offset: int, name: str) -> None:
    if not fine:
        raise Corrupt(
            f"{name} is out of order",
            offset=offset,
            field="chunk.id",
            expected="[metadata] vocabulary matrix [norms]",
            found=" ".join(c.name for c in file.chunks) + f" {name}",
        )


# -- metadata


def _read_metadata(file: File, cursor: Cursor, length: int) -> None:
    start = cursor.offset
    file.toml = cursor.text(length, "metadata")
    try:
        file.metadata = tomllib.loads(file.toml)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise Corrupt(f"the metadata is not TOML: {error}", offset=start, field="metadata", expected="TOML") from None
    file.spans.append(Span(start, length, "metadata", f"{len(file.metadata)} keys"))


# -- matrices


def _read_matrix(file: File, source: Source, kind: int, start: int, stop: int) -> Matrix:
    if kind == QUANTIZED:
        return _read_quantized(file, source, start, stop)
    if file.dialect == "reference":
        return _read_dense(file, source, start, stop)
    # The document gives both matrices the number 1: the one whose length equation holds is meant.
    try:
        return _read_dense(file, source, start, stop)
    except FormatError as dense:
        spans = len(file.spans)
        try:
            return _read_quantized(file, source, start, stop)
        except FormatError:
            del file.spans[spans:]
            raise dense from None


def _read_dense(file: File, source: Source, start: int, stop: int) -> Matrix:
    cursor = Cursor(source, start, stop)
    values = cursor.read(DENSE)
    dtype = _element_type(values["type"], start + DENSE.offset("type"))
    size = values["rows"] * values["cols"] * dtype.itemsize
    if values["rows"] and not values["cols"]:
        raise Corrupt(
            "rows of no values",
            offset=start + DENSE.offset("cols"),
            field="matrix.cols",
            expected="at least 1",
            found=0,
        )
    pad = stop - cursor.offset - size
    if pad not in paddings(cursor.offset, dtype.itemsize):
        wanted = " or ".join(str(DENSE.size + p + size) for p in sorted(set(paddings(cursor.offset, dtype.itemsize))))
        raise Corrupt(
            f"the matrix of {values['rows']} x {values['cols']} {dtype.name} does not fit its chunk",
            offset=start - 8,
            field="matrix.rows, matrix.cols",
            expected=f"{wanted} bytes",
            found=f"{stop - start} bytes",
        )
    file.spans += DENSE.spans(start, values)
    file.spans += [Span(cursor.offset, pad, "matrix.padding"), Span(cursor.offset + pad, size, "matrix.data")]
    return Matrix(values["rows"], values["cols"], dtype, cursor.offset + pad)


def _element_type(code: int, offset: int) -> np.dtype[Any]:
    if code in (8, 9):
        raise Unsupported(
            "128-bit integers have no NumPy type",
            offset=offset,
            field="type",
            expected="i8 to u64, f32 or f64",
            found="i128" if code == 8 else "u128",
            remedy="write the file again with 64-bit integers or floats",
        )
    if code not in TYPES:
        raise Corrupt("unknown element type", offset=offset, field="type", expected="0 to 11", found=code)
    return np.dtype(TYPES[code])


def _read_quantized(file: File, source: Source, start: int, stop: int) -> Matrix:
    cursor = Cursor(source, start, stop)
    values = cursor.read(PRODUCT)
    parts, dim, centroids, rows = (values[n] for n in ("quantized_len", "reconstructed_len", "n_centroids", "rows"))

    def bad(message: str, name: str, expected: Any, kind: type[FormatError] = Corrupt) -> FormatError:
        return kind(
            message,
            offset=start + PRODUCT.offset(name),
            field=f"quantized.{name}",
            expected=expected,
            found=values[name],
        )

    for name in ("projection", "norms"):
        if values[name] > 1:
            raise bad("a flag is neither 0 nor 1", name, "0 or 1")
    if not parts or not dim or dim % parts:
        raise bad("the quantized length does not divide the reconstructed one", "quantized_len", f"a divisor of {dim}")
    if not 1 <= centroids <= 256:
        raise bad("codes of one byte name 1 to 256 centroids", "n_centroids", "1 to 256")
    if values["quantized_type"] != 1:
        raise bad("codes of another type than u8 are not read", "quantized_type", "1 (u8)", Unsupported)
    if values["reconstructed_type"] != 10:
        raise bad("centroids of another type than f32 are not read", "reconstructed_type", "10 (f32)", Unsupported)
    room = stop - cursor.offset
    flags = [(values["projection"], values["norms"]), (1, 1)]  # the document lists both as always there
    for projection, norms in flags:
        size = 4 * (projection * dim * dim + centroids * dim + norms * rows) + rows * parts
        pad = room - size
        if pad in paddings(cursor.offset, 4):
            at = cursor.offset + pad
            books = at + 4 * projection * dim * dim
            after = books + 4 * centroids * dim
            codes = after + 4 * norms * rows
            file.spans += PRODUCT.spans(start, values)
            file.spans += [
                Span(cursor.offset, pad, "quantized.padding"),
                Span(at, books - at, "quantized.projection_matrix"),
                Span(books, after - books, "quantized.codebooks"),
                Span(after, codes - after, "quantized.norms"),
                Span(codes, rows * parts, "quantized.codes"),
            ]
            return Matrix(
                rows,
                dim,
                np.dtype("<f4"),
                codes,
                True,
                parts,
                centroids,
                at if values["projection"] else None,
                books,
                after if values["norms"] else None,
            )
    raise Corrupt(
        "the quantized matrix does not fit its chunk",
        offset=start - 8,
        field="quantized.rows",
        expected=f"about {PRODUCT.size + 4 + 4 * centroids * dim + rows * parts} bytes",
        found=f"{stop - start} bytes",
    )


# -- norms


def _read_norms(file: File, source: Source, start: int, stop: int) -> None:
    cursor = Cursor(source, start, stop)
    values = cursor.read(NDNORMS)
    if values["type"] != 10:
        raise Unsupported(
            "norms of another type than f32 are not read",
            offset=start + 8,
            field="norms.type",
            expected="10 (f32)",
            found=values["type"],
        )
    assert file.words is not None
    if values["n"] != len(file.words.strings):
        raise Corrupt(
            "there is not one norm a word",
            offset=start,
            field="norms.n",
            expected=len(file.words.strings),
            found=values["n"],
        )
    pad = stop - cursor.offset - 4 * values["n"]
    if pad not in paddings(cursor.offset, 4):
        raise Corrupt(
            "the norms do not fit their chunk",
            offset=start - 8,
            field="norms.n",
            expected=f"{NDNORMS.size + 4 * values['n']} bytes and padding",
            found=f"{stop - start} bytes",
        )
    file.norms = cursor.offset + pad
    file.spans += NDNORMS.spans(start, values)
    file.spans += [Span(cursor.offset, pad, "norms.padding"), Span(file.norms, 4 * values["n"], "norms.data")]


def _read_unlisted_norms(file: File, source: Source, cursor: Cursor) -> None:
    """Old files carry norms that the header does not list."""
    if file.norms is not None or cursor.left < CHUNK.size:
        return
    head = CHUNK.read(source, cursor.offset)
    if head["id"] != NORMS or head["len"] > cursor.left - CHUNK.size:
        return
    file.notes.append("the norms are not listed in the header, as in files of old writers")
    start = cursor.offset + CHUNK.size
    _read_norms(file, source, start, start + head["len"])
    file.spans += CHUNK.spans(cursor.offset, head)
    cursor.offset = start + head["len"]


def _check_rows(file: File) -> None:
    """rows = words + subword rows."""
    assert file.words is not None and file.matrix is not None
    words = len(file.words.strings)
    subwords = file.words.subwords.rows if file.words.subwords is not None else 0
    if file.matrix.rows != words + subwords:
        raise Corrupt(
            "the matrix does not have one row for each word and subword",
            field="matrix.rows",
            offset=next(
                c.start
                for c in file.chunks
                if c.id in (NDARRAY, QUANTIZED, DOCUMENT_STORAGE) and c.name in ("NdArray", "QuantizedArray")
            ),
            expected=f"{words} words + {subwords} subword rows = {words + subwords}",
            found=file.matrix.rows,
        )
