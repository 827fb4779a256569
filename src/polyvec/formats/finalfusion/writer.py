"""Writing finalfusion files: sizes are known before the first byte, so everything streams."""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyvec.codecs import Raw, transcode
from polyvec.codecs.product import METHODS, TRAIN_ROWS, Product, train
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Block
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.format import WriteOptions
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.subwords import BucketIndexer, ExplicitIndexer, FastTextIndexer, FloretIndexer, Subwords
from polyvec.core.views import TakeColumn
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.finalfusion import structure as c
from polyvec.formats.finalfusion.toml import dump_toml
from polyvec.formats.words import words_of
from polyvec.kernels import strings as tables

WORDS_AT_ONCE = 1 << 16
TYPE_NAMES = {"f32": "<f4", "f64": "<f8"} | {np.dtype(t).name: t for t in c.TYPES.values()}
DIALECT = Option(
    "dialect", str, "The reference's layout of the file, or the document's.", ("reference", "document"), "reference"
)
TYPE = Option("type", str, "The element type of the matrix.", tuple(sorted(TYPE_NAMES)))
QUANTIZER = Option("quantizer", str, "Product quantizer, or one that also learns a rotation.", METHODS)
PARTS = Option("parts", int, "Parts that a row is cut into for pq; each is one code.")
BITS = Option("bits", int, "Bits of a pq code.")
ITERATIONS = Option("iterations", int, "Steps of the training of pq.")
SEED = Option("seed", int, "Where the training of pq starts.")
NORMS = Option("norms", bool, "Lengths are kept beside pq codes.", (), True)
NORMALIZE = Option(
    "normalize", bool, "Rows are made of unit length, with their lengths as norms; false keeps them as they are."
)
TRAINING = (QUANTIZER, PARTS, BITS, ITERATIONS, SEED)
COLUMNS = ("norms", "subwords")  # beside the main one


@dataclass(frozen=True, slots=True)
class Kept:
    """What a rewrite keeps as it was: the TOML text, and chunks that polyvec does not know, by where they stood."""

    toml: str | None = None
    metadata: dict[str, Any] | None = None
    chunks: tuple[tuple[int, int, bytes], ...] = ()  # known chunks before it, identifier, data


def write_file(collection: Collection, sink: Sink, options: WriteOptions, kept: Kept) -> None:
    """The collection as a finalfusion file, in the dialect asked for."""
    own = options.own
    dialect = DIALECT.of(own)
    check_columns(collection)
    collection = ordered(collection)
    document = dialect == "document"
    strings = words_of(collection)
    subwords = collection.vocab.subwords if collection.vocab is not None and "subwords" in collection.columns else None
    codec = storage_codec(collection, options)
    norms = collection.columns.get("norms")
    pieces: list[tuple[int, Any]] = []
    if collection.metadata or kept.toml is not None:
        pieces.append((c.METADATA, lambda: _write_metadata(sink, collection, kept)))
    vocab_id = _vocab_id(subwords, document)
    pieces.append((vocab_id, lambda: _write_vocab(sink, strings, subwords, document)))
    storage_id = c.DOCUMENT_STORAGE if document else (c.QUANTIZED if isinstance(codec, Product) else c.NDARRAY)
    pieces.append((storage_id, lambda: _write_storage(sink, collection, codec, options, document)))
    if norms is not None:
        pieces.append((c.NORMS, lambda: _write_norms(sink, norms, options, document)))
    for place, chunk, data in reversed(kept.chunks):
        pieces.insert(min(place, len(pieces)), (chunk, lambda chunk=chunk, data=data: _chunk(sink, chunk, data)))
    ids = [chunk for chunk, _ in pieces]
    sink.write(
        c.HEADER.pack({"magic": c.MAGIC, "version": 0, "n_chunks": len(ids)}) + struct.pack(f"<{len(ids)}I", *ids)
    )
    for _, write in pieces:
        write()


def check_columns(collection: Collection) -> None:
    """`LossyConversion` for columns that a finalfusion file has no place for."""
    others = [n for n in collection.columns if n != collection.main and n not in COLUMNS]
    if others:
        raise LossyConversion(
            f"finalfusion holds word rows, subword rows and norms, and the source also has "
            f"{', '.join(others)}; choose one column with --column (column=)"
        )
    subwords = collection.columns.get("subwords")
    rows = 0 if subwords is None else subwords.rows
    indexer = collection.vocab.subwords if collection.vocab is not None else None
    if subwords is not None and (indexer is None or indexer.rows != rows):
        raise LossyConversion(
            f"there are {rows} subword rows, and the vocabulary indexes {indexer.rows if indexer else 'none'} (those of "
            f"several files cannot be merged); leave them out with --column {collection.main} (column=)"
        )
    if len(collection.vectors.shape) != 2:
        raise InputError(f"finalfusion holds rows of numbers, not a column of shape {collection.vectors.shape}")
    norms = collection.columns.get("norms")
    if norms is not None and norms.shape != (collection.rows,):
        raise InputError(f"there must be one norm a word ({collection.rows}), not a column of shape {norms.shape}")


def ordered(collection: Collection) -> Collection:
    """Explicit n-gram rows in the order in which n-grams first name them, as every reader counts them."""
    indexer = collection.vocab.subwords if collection.vocab is not None else None
    if not isinstance(indexer, ExplicitIndexer) or "subwords" not in collection.columns:
        return collection
    distinct, first = np.unique(indexer.targets, return_index=True)
    order = distinct[np.argsort(first)]
    if np.array_equal(order, np.arange(len(order))) and len(order) == collection["subwords"].rows:
        return collection
    places = np.zeros(indexer.rows, np.int64)
    places[order] = np.arange(len(order))
    assert collection.vocab is not None
    renumbered = ExplicitIndexer(indexer.min_n, indexer.max_n, indexer.ngrams, places[indexer.targets])
    columns = {**collection.columns, "subwords": TakeColumn(collection["subwords"], order)}
    return Collection(
        columns,
        main=collection.main,
        metadata=collection.metadata,
        vocab=Vocab(collection.vocab.words, subwords=renumbered),
    )


def storage_codec(collection: Collection, options: WriteOptions) -> Raw | Product:
    """The codec of the matrix: the source's own, raw, or a trained product quantizer."""
    column = collection.vectors
    asked = options.encoding
    subwords = collection.columns.get("subwords")
    if asked != "raw" and isinstance(column.codec, Product):
        if subwords is None or subwords.codec == column.codec:
            return column.codec
        return train(
            sample_rows(collection),
            norms=column.codec.norms,
            parts=column.codec.parts_count,
            bits=max(1, (column.codec.centroids - 1).bit_length()),
        )
    if asked == "pq":
        return train(sample_rows(collection), **_training(options.own))
    dtype = column.dtype
    if (dtype.kind == "f" and dtype.itemsize < 4) or dtype.kind == "V":
        dtype = np.dtype("<f4")  # exact, and what every reader takes
    asked_type = TYPE.of(options.own)
    if asked_type is not None:
        dtype = np.dtype(TYPE_NAMES[asked_type])
    return Raw(dtype.newbyteorder("<"))


def _training(own: Any) -> dict[str, Any]:
    chosen = {option.name: own[option.name] for option in TRAINING if own.get(option.name) is not None}
    if QUANTIZER.name in chosen:
        chosen["method"] = chosen.pop(QUANTIZER.name)
    return {**chosen, "norms": NORMS.of(own)}


def sample_rows(collection: Collection, rows: int = TRAIN_ROWS) -> np.ndarray[Any, Any]:
    """Rows to train on, spread evenly over words and subwords."""
    columns = [collection.vectors] + ([collection["subwords"]] if "subwords" in collection.columns else [])
    total = sum(column.rows for column in columns)
    found = []
    for column in columns:
        count = min(column.rows, max(1, rows * column.rows // max(1, total)))
        picked = (
            np.unique(np.linspace(0, column.rows - 1, count).astype(np.int64)) if column.rows else np.empty(0, np.int64)
        )
        found.append(column.take(picked).astype(np.float32))
    return np.concatenate(found)


def _vocab_id(subwords: Subwords | None, document: bool) -> int:
    kinds: dict[type, int] = {
        BucketIndexer: c.BUCKET,
        FastTextIndexer: c.FASTTEXT,
        ExplicitIndexer: c.EXPLICIT,
        FloretIndexer: c.FLORET,
    }
    if subwords is None:
        return c.DOCUMENT_SIMPLE if document else c.SIMPLE
    chunk = kinds[type(subwords)]
    if document and chunk != c.BUCKET:
        raise InputError(f"the document has no {c.NAMES[chunk]}; write the reference dialect")
    return chunk


def _chunk(sink: Sink, chunk: int, data: bytes) -> None:
    sink.write(c.CHUNK.pack({"id": chunk, "len": len(data)}) + data)


def _write_metadata(sink: Sink, collection: Collection, kept: Kept) -> None:
    if kept.toml is not None and collection.metadata == kept.metadata:
        return _chunk(sink, c.METADATA, kept.toml.encode())
    text = dump_toml(collection.metadata)
    tomllib.loads(text)  # what we write we can read
    return _chunk(sink, c.METADATA, text.encode())


def _write_vocab(sink: Sink, strings: Strings, subwords: Subwords | None, document: bool) -> None:
    total = int((strings.stops - strings.starts).sum()) + 4 * len(strings)
    if isinstance(subwords, FloretIndexer):
        return _write_floret(sink, strings, subwords)
    if isinstance(subwords, ExplicitIndexer):
        return _write_explicit(sink, strings, subwords, total)
    count = struct.pack("<Q", len(strings))
    fields = b""
    if isinstance(subwords, BucketIndexer):
        fields = struct.pack("<III", subwords.min_n, subwords.max_n, subwords.exponent)
    elif isinstance(subwords, FastTextIndexer):
        fields = struct.pack("<III", subwords.min_n, subwords.max_n, subwords.buckets)
    head = fields + count if document else count + fields
    sink.write(c.CHUNK.pack({"id": _vocab_id(subwords, document), "len": len(head) + total}) + head)
    for piece in prefixed(strings):
        sink.write(piece)
    return None


def prefixed(strings: Strings) -> Iterator[np.ndarray[Any, Any]]:
    """The strings behind their lengths, some ten thousand at a time."""
    table = strings.table
    for start in range(0, len(strings), WORDS_AT_ONCE):
        yield tables.join(table.slice(start, start + WORDS_AT_ONCE), prefix=True)


def _write_explicit(sink: Sink, strings: Strings, subwords: ExplicitIndexer, total: int) -> None:
    ngrams = subwords.ngrams
    size = 24 + total + int((ngrams.stops - ngrams.starts).sum()) + 12 * len(ngrams)
    head = struct.pack("<QQII", len(strings), len(ngrams), subwords.min_n, subwords.max_n)
    sink.write(c.CHUNK.pack({"id": c.EXPLICIT, "len": size}) + head)
    for piece in prefixed(strings):
        sink.write(piece)
    table = ngrams.table
    for start in range(0, len(ngrams), WORDS_AT_ONCE):
        rows = subwords.targets[start : start + WORDS_AT_ONCE].tolist()
        parts = (
            struct.pack("<I", len(w)) + w + struct.pack("<Q", row)
            for w, row in zip(table.slice(start, start + WORDS_AT_ONCE), rows)
        )
        sink.write(b"".join(parts))


def _write_floret(sink: Sink, strings: Strings, subwords: FloretIndexer) -> None:
    if len(strings):
        raise LossyConversion(
            f"a floret vocabulary has no words of its own, and the source has {len(strings)}; "
            "write the words to another file, or leave them out"
        )
    brackets = b"".join(struct.pack("<I", len(b)) + b for b in (subwords.bow.encode(), subwords.eow.encode()))
    fields = (subwords.min_n, subwords.max_n, subwords.buckets, subwords.hashes, subwords.seed)
    _chunk(sink, c.FLORET, struct.pack("<IIQII", *fields) + brackets)


def _pad(offset: int, width: int, document: bool) -> int:
    reference, aligned = c.paddings(offset, width)
    return aligned if document else reference


def _storage_columns(collection: Collection) -> list[Column]:
    return [collection.vectors] + ([collection["subwords"]] if "subwords" in collection.columns else [])


def _write_storage(
    sink: Sink, collection: Collection, codec: Raw | Product, options: WriteOptions, document: bool
) -> None:
    columns = _storage_columns(collection)
    rows = sum(column.rows for column in columns)
    if isinstance(codec, Product):
        return _write_quantized(sink, columns, rows, codec, options, document)
    width = codec.dtype.itemsize
    pad = _pad(sink.size + c.CHUNK.size + c.DENSE.size, width, document)
    size = c.DENSE.size + pad + rows * collection.dim * width
    sink.write(
        c.CHUNK.pack({"id": c.DOCUMENT_STORAGE if document else c.NDARRAY, "len": size})
        + c.DENSE.pack({"rows": rows, "cols": collection.dim, "type": c.CODES[codec.dtype]})
        + bytes(pad)
    )
    for column in columns:
        write_rows(sink, column, codec, options)
    return None


def _write_quantized(
    sink: Sink, columns: list[Column], rows: int, codec: Product, options: WriteOptions, document: bool
) -> None:
    parts, dim, projection = codec.parts_count, codec.dim, codec.projection
    pad = _pad(sink.size + c.CHUNK.size + c.PRODUCT.size, 4, document)
    size = c.PRODUCT.size + pad + 4 * codec.centroids * dim + rows * parts
    size += 4 * dim * dim if projection is not None else 0
    size += 4 * rows if codec.norms else 0
    values = {
        "projection": int(projection is not None),
        "norms": int(codec.norms),
        "quantized_len": parts,
        "reconstructed_len": dim,
        "n_centroids": codec.centroids,
        "rows": rows,
        "quantized_type": 1,
        "reconstructed_type": 10,
    }
    sink.write(
        c.CHUNK.pack({"id": c.DOCUMENT_STORAGE if document else c.QUANTIZED, "len": size})
        + c.PRODUCT.pack(values)
        + bytes(pad)
    )
    if projection is not None:
        sink.write(np.ascontiguousarray(projection, "<f4"))
    sink.write(np.ascontiguousarray(codec.books, "<f4"))
    # Norms stand before the codes and both come of one pass, so the norms' place is left open.
    norms_at = sink.reserve(4 * rows) if codec.norms else 0
    done = 0
    for block in _encoded(columns, codec):
        if codec.norms:
            sink.write_at(norms_at + 4 * done, np.ascontiguousarray(block.parts["norms"], "<f4"))
        sink.write(np.ascontiguousarray(block.parts["codes"]))
        done += block.rows
        if options.progress:
            options.progress(done, rows)


def _encoded(columns: list[Column], codec: Product) -> Iterator[Block]:
    for column in columns:
        for block in column.blocks(reuse=True):
            yield transcode(block, codec)


def _write_norms(sink: Sink, norms: Column, options: WriteOptions, document: bool) -> None:
    pad = _pad(sink.size + c.CHUNK.size + c.NDNORMS.size, 4, document)
    size = c.NDNORMS.size + pad + 4 * norms.rows
    sink.write(c.CHUNK.pack({"id": c.NORMS, "len": size}) + c.NDNORMS.pack({"n": norms.rows, "type": 10}) + bytes(pad))
    write_rows(sink, norms, Raw(np.dtype("<f4")), WriteOptions(chunk_rows=options.chunk_rows))
