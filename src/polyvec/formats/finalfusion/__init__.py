"""finalfusion: words with their vectors, subwords, quantised matrices, norms and metadata in one file of chunks.

::

    'FiFu'  u32 version = 0  u32 n_chunks  u32 ids[n_chunks]
    each chunk: u32 id, u64 len, len bytes; the order is [Metadata] Vocab Storage [NdNorms]

    1 SimpleVocab           u64 n; n strings (u32 byte length + UTF-8)
    3 BucketSubwordVocab    u64 n, u32 min_n, u32 max_n, u32 bucket_exp; n strings
    7 FastTextSubwordVocab  the same; the last u32 is the number of buckets
    8 ExplicitSubwordVocab  u64 n_words, u64 n_ngrams, u32 min_n, u32 max_n; strings; (string, u64 row) each n-gram
    9 FloretSubwordVocab    u32 min_n, u32 max_n, u64 buckets, u32 n_hashes, u32 seed, string bow, string eow
    2 NdArray               u64 rows, u32 cols, u32 type; PAD; rows * cols values
    4 QuantizedArray        u32 projection, norms, quantized_len, reconstructed_len, n_centroids, u64 rows, u32 1,
                            u32 10; PAD; [projection], codebooks, [norms], codes
    5 Metadata              TOML
    6 NdNorms               u64 n, u32 10; PAD; n float32

Little endian. PAD is 4 - (position mod 4) zero bytes: 1 to 4, never 0. rows = words + subword rows. The published
document differs (other numbers, order and padding); both are read, and ``dialect="document"`` writes it.
docs/errata/finalfusion.md lists each difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polyvec.codecs import Raw
from polyvec.codecs.product import Product
from polyvec.core.blocks import Codec, Extent, Part
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.dtypes import SMALL_FLOATS
from polyvec.core.errors import InputError
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Span
from polyvec.core.plain import stored
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.vocab import Vocab
from polyvec.formats.finalfusion.chunks import read_file
from polyvec.formats.finalfusion.structure import CODES, MAGIC, File, Matrix
from polyvec.formats.finalfusion.writer import (
    DIALECT,
    NORMALIZE,
    NORMS,
    TRAINING,
    TYPE,
    Kept,
    storage_codec,
    write_file,
)
from polyvec.formats.spelling import repeated
from polyvec.formats.wordoptions import DUPLICATES, LENGTHS, LOSSY
from polyvec.formats.words import UnitRows, keep_lengths, prepare_words, products, unit_columns

KEPT_BYTES = 64 << 20  # unknown chunks that together are larger are not carried through a rewrite


class FinalfusionCollection(Collection):
    """A collection that remembers the parts of its file which a rewrite keeps as they were."""

    kept: Kept = Kept()
    dialect: str = "reference"


class Finalfusion(Format):
    """Word embeddings as the finalfusion tools keep them."""

    name = "finalfusion"
    title = "finalfusion word embeddings"
    suffixes = (".fifu",)
    aliases = {"fifu": ""}  # noqa: RUF012
    holds = Holds(
        many_columns=True,
        vocab=True,
        metadata=True,
        encodings=("raw", "pq"),
        dtypes=(*CODES, *SMALL_FLOATS),
        encodes_all=True,
    )
    reading = (LOSSY,)
    options = (DIALECT, TYPE, *TRAINING, NORMS, NORMALIZE, LENGTHS, DUPLICATES)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, "starts with the magic 'FiFu'")]
        return [Match(Confidence.SUFFIX, "suffix .fifu; the magic is missing")] if peek.suffix == ".fifu" else []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        file = read_file(source, lossy=bool(own.get("lossy", lenient)))
        assert file.words is not None and file.matrix is not None
        words, matrix = len(file.words.strings), file.matrix
        columns: dict[str, Column] = {"vectors": _column("vectors", source, matrix, 0, words)}
        if file.words.subwords is not None:
            columns["subwords"] = _column("subwords", source, matrix, words, matrix.rows)
        if file.norms is not None:
            norms = Extent(0, words, file.norms, 4 * words, Raw(np.dtype("<f4")))
            columns["norms"] = FileColumn("norms", source, [norms], row_shape=(), encoding="raw", dtype=np.dtype("<f4"))
            columns["norms"].lengths = True
        collection = FinalfusionCollection(
            columns,
            vocab=Vocab(file.words.strings, subwords=file.words.subwords),
            metadata=stored(file.metadata),
            notes=file.notes,
        )
        collection.kept = _kept(source, file, collection)
        collection.dialect = file.dialect
        return collection

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        """With a type asked for, rows become that, whatever they are."""
        return self.holds if TYPE.of(options.own) is None else replace(self.holds, dtypes=None)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        if options.encoding == "pq":
            return "pq"
        codec = storage_codec(collection, options)
        return "pq" if isinstance(codec, Product) else f"raw {codec.dtype.name}"

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        """Word rows of unit length with their norms apart, as every reader assumes; ``normalize=False`` keeps them.

        Rows of a finalfusion file, codes, and rows whose norms are known stay as they are unless asked.
        """
        collection, dropped = prepare_words(keep_lengths(collection, own, "finalfusion"), own, "finalfusion")
        asked, type = NORMALIZE.of(own), TYPE.of(own)
        floats = type is None or type in ("f32", "float32", "f64", "float64")
        if asked and not floats:
            raise InputError(f"rows of unit length are no {type}; leave out type, or normalize")
        column = collection.vectors
        known = collection.format == self.name or isinstance(column.codec, Product) or not floats or not column.rows
        if asked is False or "norms" in collection.columns or (known and not asked) or len(column.shape) != 2:
            return collection, dropped
        unit = unit_columns(collection)
        unit.notes.append(
            "rows are made unit and their lengths kept as norms, as finalfusion's readers assume; rows times norms are "
            "the values (--option normalize=false keeps the rows as they are)"
        )
        return unit, dropped

    def compared(self, given: Collection, written: Collection) -> tuple[Column, Column]:
        """Rows that were made unit are compared as they were, with rows times norms of the file."""
        if isinstance(given.vectors, UnitRows) and "norms" in written.columns:
            return given.vectors.original, products(written.vectors, written["norms"])
        return given.vectors, written.vectors

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        write_file(collection, sink, options, getattr(collection, "kept", Kept()))

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            yield from (Finding("warning", note) for note in collection.notes)
            yield from repeated(collection, "error")
            codec = collection.vectors.codec
            if isinstance(codec, Raw) and codec.dtype != np.float32:
                yield Finding(
                    "note",
                    f"the reference readers take only float32 matrices, not {codec.dtype.name}",
                    field="matrix.type",
                )
            if getattr(collection, "dialect", "") == "document":
                yield Finding("note", "written as the document says; the reference readers refuse it", 12, "chunk_ids")
            yield from check_rows(collection)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        return sorted(read_file(source, lossy=True).spans, key=lambda span: span.offset)


def _column(name: str, source: Source, matrix: Matrix, start: int, stop: int) -> FileColumn:
    """Rows start to stop of the matrix as a column."""
    rows = stop - start
    codec: Codec = Raw(matrix.dtype)
    width = matrix.dim * matrix.dtype.itemsize
    others: tuple[Part, ...] = ()
    if matrix.quantized:
        width = matrix.parts
        codec = _product(source, matrix, matrix.data + start * width)
        if matrix.norms is not None:
            others = (Part("norms", matrix.norms + 4 * start),)
    extent = Extent(0, rows, matrix.data + start * width, rows * width, codec, others=others)
    return FileColumn(
        name,
        source,
        [extent],
        row_shape=(matrix.dim,),
        dtype=matrix.dtype,
        encoding="pq" if matrix.quantized else "raw",
    )


def _product(source: Source, matrix: Matrix, origin: int) -> Product:
    books = np.empty((matrix.parts, matrix.centroids, matrix.dim // matrix.parts), "<f4")
    source.read_into(matrix.books, books)
    projection = None
    if matrix.projection is not None:
        projection = np.empty((matrix.dim, matrix.dim), "<f4")
        source.read_into(matrix.projection, projection)
    return Product(books, projection, matrix.norms is not None, origin)


def _kept(source: Source, file: File, collection: Collection) -> Kept:
    chunks: list[tuple[int, int, bytes]] = []
    total = known = 0
    for chunk in file.chunks:
        if any(other.offset == chunk.offset for other in file.unknown):
            total += chunk.stop - chunk.start
            if total <= KEPT_BYTES:
                chunks.append((known + len(chunks), chunk.id, source.read_at(chunk.start, chunk.stop - chunk.start)))
        else:
            known += 1
    if total > KEPT_BYTES:
        collection.notes.append("unknown chunks of more than 64 MB are not carried through a rewrite")
    return Kept(file.toml, dict(collection.metadata), tuple(chunks))


FORMAT = Finalfusion()
