"""fastText models (.bin): a dictionary, word and n-gram bucket rows in one matrix, and the output layer.

::

    i32 magic 793712314, i32 version 12
    i32 dim ws epoch minCount neg wordNgrams loss model bucket minn maxn [mode hashCount] lrUpdateRate, f64 t
    i32 size nwords nlabels, i64 ntokens, i64 pruneidx_size
    size times: word bytes, 0, i64 count, i8 type (0 a word, 1 a label)
    u8 quantized, i64 rows, i64 cols, rows * cols float32        words first, then buckets
    u8 quantized, i64 rows, i64 cols, rows * cols float32        the output layer, which is not read

The two fields in brackets stand in files that floret's tools wrote. A word's vector is the mean of its own row and of
its n-grams' rows (``</s>`` has none); ``vectors`` gives it at unit length with its length in ``norms``, and
``subwords`` the bucket rows as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs import Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Array, Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column, FileColumn, ReaderColumn
from polyvec.core.errors import Corrupt, InputError, LossyConversion, Truncated, Unsupported
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Cursor, Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.subwords import MAX_N, FastTextIndexer, ngram_rows
from polyvec.core.vocab import Vocab
from polyvec.formats.spelling import check_words_too
from polyvec.formats.word2vec import check_words
from polyvec.formats.wordoptions import DUPLICATES, LENGTHS, LOSSY, SPACES
from polyvec.formats.words import F32, float_rows, keep_lengths, prepare_plain, prepare_words, products, words_of
from polyvec.kernels import strings as tables
from polyvec.kernels.rows import scale_rows
from polyvec.kernels.strings import Table
from polyvec.kernels.subwords import sum_rows

MAGIC, VERSION = 793712314, 12
ARGS = ("dim", "ws", "epoch", "min_count", "neg", "word_ngrams", "loss", "model", "bucket", "minn", "maxn")
PLAIN = Record("args", **dict.fromkeys((*ARGS, "lr_update_rate"), "i4"), t="f8")
WIDE = Record("args", **dict.fromkeys((*ARGS, "mode", "hash_count", "lr_update_rate"), "i4"), t="f8")
COUNTS = Record("dictionary", size="i4", nwords="i4", nlabels="i4", ntokens="i8", pruneidx_size="i8")
MATRIX = Record("matrix", quantized="u1", rows="i8", cols="i8")
LOSSES = ("HierarchicalSoftmax", "NegativeSampling", "Softmax")
MODELS = ("CBOW", "SkipGram", "Supervised")
ENTRY = 9  # count and type, after a word's zero
# Metadata as finalfusion's tools name it, and where it stands in the arguments.
KEYS = {
    "dims": "dim",
    "window_size": "ws",
    "epoch": "epoch",
    "min_count": "min_count",
    "ns": "neg",
    "word_ngrams": "word_ngrams",
    "loss": "loss",
    "model": "model",
    "buckets": "bucket",
    "min_n": "minn",
    "max_n": "maxn",
    "lr_update_rate": "lr_update_rate",
    "sampling_threshold": "t",
}


@dataclass(frozen=True, slots=True)
class Model:
    """What a file says: its arguments, its words, and where the rows begin."""

    args: dict[str, Any]
    words: Table
    rows: int
    dim: int
    data: int
    notes: tuple[str, ...]


class FastText(Format):
    """fastText's own models, read with subwords, written so that fastText and gensim load them."""

    name = "fasttext"
    title = "fastText model"
    suffixes = (".bin", ".fasttext")
    holds = Holds(many_columns=True, vocab=True, metadata=True, dtypes=(F32,), casts=True)
    options = (SPACES, DUPLICATES, LENGTHS)
    reading = (LOSSY,)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head[:8] == struct.pack("<ii", MAGIC, VERSION):
            return [Match(Confidence.MAGIC, "starts with fastText's magic and version 12")]
        return (
            [Match(Confidence.SUFFIX, "suffix .fasttext; the magic is missing")] if peek.suffix == ".fasttext" else []
        )

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        model = read_model(source)
        strings = check_words(model.words, source, lossy=bool(own.get("lossy", lenient)))
        words, dim = len(strings), model.dim
        buckets = model.rows - words
        vocab = Vocab(strings)
        columns: dict[str, Column]
        if model.args["minn"] > 0 and model.args["maxn"] > 0 and buckets:
            vocab.subwords = FastTextIndexer(model.args["minn"], model.args["maxn"], buckets)
            extent = Extent(0, buckets, model.data + words * dim * 4, buckets * dim * 4, Raw(F32))
            means = _Means(source, model, strings.table, vocab.subwords)
            columns = {
                "vectors": ReaderColumn("vectors", (words, dim), F32, means.vectors),
                "subwords": FileColumn("subwords", source, [extent], row_shape=(dim,), encoding="raw", dtype=F32),
                "norms": ReaderColumn("norms", (words,), F32, means.norms),
            }
            columns["norms"].lengths = True
        else:
            extent = Extent(0, words, model.data, words * dim * 4, Raw(F32))
            columns = {"vectors": FileColumn("vectors", source, [extent], row_shape=(dim,), encoding="raw", dtype=F32)}
        return Collection(columns, vocab=vocab, metadata=_metadata(model.args), notes=model.notes)

    def suits(self, collection: Collection, suffix: str) -> bool:
        subwords = collection.vocab.subwords if collection.vocab is not None else None
        return suffix == ".fasttext" or (isinstance(subwords, FastTextIndexer) and "subwords" in collection.columns)

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        if "subwords" not in collection.columns:  # then fastText's rows are the vectors themselves
            collection, dropped = prepare_plain(collection, own, "fastText", forbidden=b"\0")
            others = [name for name in collection.columns if name != collection.main]
            if others:
                raise LossyConversion(
                    f"fastText without subwords holds word rows only, and the source also has {', '.join(others)}; "
                    f"leave them out with --column {collection.main} (column=)"
                )
            return collection, dropped
        collection = keep_lengths(collection, own, "fastText")
        others = [n for n in collection.columns if n != collection.main and n not in ("norms", "subwords")]
        if others:
            raise LossyConversion(
                f"fastText holds word rows, subword rows and norms, and the source also has "
                f"{', '.join(others)}; choose one column with --column (column=)"
            )
        subwords = collection.vocab.subwords if collection.vocab is not None else None
        if not isinstance(subwords, FastTextIndexer):
            kind = subwords.kind if subwords is not None else "no"
            raise LossyConversion(f"fastText hashes n-grams its own way and cannot hold {kind} subwords; write .fifu")
        return prepare_words(collection, own, "fastText", forbidden=b"\0")

    def compared(self, given: Collection, written: Collection) -> tuple[Column, Column]:
        """Rows at their lengths: fastText's rows are read as unit vectors and norms, whatever they were."""
        if "norms" not in written.columns:
            return given.vectors, written.vectors
        before = products(given.vectors, given["norms"]) if "norms" in given.columns else given.vectors
        return before, products(written.vectors, written["norms"])

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        """Only fastText's own arguments have a place; where there is more, all metadata goes beside the file."""
        subwords = collection.vocab.subwords if collection.vocab is not None else None
        indexer = subwords if isinstance(subwords, FastTextIndexer) and "subwords" in collection.columns else None
        kept = _metadata(_arguments(collection, indexer, collection.dim))
        own = all(name in kept and kept[name] == value for name, value in collection.metadata.items())
        return self.holds if own else replace(self.holds, metadata=False)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "raw float32"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        strings = words_of(collection)
        if collection.dim < 1:
            raise LossyConversion("rows of no values cannot stand in a fastText model; write .npy")
        subwords = collection.columns.get("subwords")
        indexer = collection.vocab.subwords if collection.vocab is not None and subwords is not None else None
        if indexer is not None and not isinstance(indexer, FastTextIndexer):
            raise InputError("fastText holds fastText's own subwords only")
        table, words, dim = strings.table, collection.rows, collection.dim
        buckets = indexer.buckets if indexer is not None else 0
        sink.write(struct.pack("<ii", MAGIC, VERSION) + PLAIN.pack(_arguments(collection, indexer, dim)))
        sink.write(COUNTS.pack({"size": words, "nwords": words, "nlabels": 0, "ntokens": words, "pruneidx_size": -1}))
        for start in range(0, words, 1 << 16):
            piece = table.slice(start, start + (1 << 16))
            entry = np.zeros((len(piece), ENTRY), np.uint8)
            entry[:, 0] = 1  # a count of one: the true one is not kept in other formats
            sink.write(tables.weave_rows(piece, entry, middle=b"\0"))
        sink.write(MATRIX.pack({"quantized": 0, "rows": words + buckets, "cols": dim}))
        _write_words(sink, collection, table, indexer, options)
        if subwords is not None:
            write_rows(sink, subwords, Raw(F32), WriteOptions(chunk_rows=options.chunk_rows))
        sink.write(MATRIX.pack({"quantized": 0, "rows": 0, "cols": dim}))  # no output layer: nothing to train further

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            yield from check_words_too(collection)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        model = read_model(source)
        size = model.rows * model.dim * 4
        return [
            Span(0, 8, "magic, version", f"{MAGIC}, {VERSION}"),
            Span(8, model.data - MATRIX.size - 8, "arguments and dictionary", f"{len(model.words)} words"),
            Span(model.data - MATRIX.size, MATRIX.size, "matrix.fields", f"{model.rows} x {model.dim}"),
            Span(model.data, size, "matrix.data"),
            Span(model.data + size, source.size - model.data - size, "output layer", "not read"),
        ]


class _Means:
    """The vectors of words: the mean of a word's row and its n-grams', at unit length. Lengths are kept once known."""

    def __init__(self, source: Source, model: Model, words: Table, indexer: FastTextIndexer) -> None:
        size = model.rows * model.dim * 4
        self._matrix = source.mapped(model.data, size).view(F32).reshape(model.rows, model.dim)
        self._words = words
        self._indexer = indexer
        self._norms = np.full(len(words), -1, np.float32)

    def vectors(self, start: int, stop: int) -> Array:
        """Unit rows start to stop."""
        rows = ngram_rows(self._indexer, self._words.slice(start, stop))
        rows.indices[rows.indices >= 0] += len(self._words)
        sums, norms = sum_rows(self._matrix, rows, own=np.arange(start, stop), mean=True, normalize=True)
        self._norms[start:stop] = norms
        return sums

    def norms(self, start: int, stop: int) -> NDArray[np.float32]:
        """The lengths that rows start to stop had."""
        if (self._norms[start:stop] < 0).any():
            self.vectors(start, stop)
        return self._norms[start:stop].copy()


def read_model(source: Source) -> Model:
    """Arguments, dictionary and the place of the input matrix; `FormatError` where they contradict the file."""
    head = Record("header", magic="i4", version="i4").read(source)
    if head["magic"] != MAGIC:
        raise Corrupt("not a fastText model", offset=0, field="magic", expected=MAGIC, found=head["magic"])
    if head["version"] != VERSION:
        raise Unsupported(
            "unknown fastText version", offset=4, field="version", expected=VERSION, found=head["version"]
        )
    problem: Exception | None = None
    for record in (PLAIN, WIDE):
        cursor = Cursor(source, 8)
        try:
            args = cursor.read(record)
            counts = cursor.read(COUNTS)
        except Truncated as error:
            problem = problem or error
            continue
        if _plausible(args, counts, source.size):
            if args.get("mode", 1) != 1:
                raise Unsupported(
                    "floret's table in a fastText model is not read",
                    offset=8,
                    field="mode",
                    remedy="save it as .floret with floret's save_floret_vectors",
                )
            return _read_dictionary(source, cursor, args, counts)
    if problem is not None and source.size < 8 + PLAIN.size + COUNTS.size:
        raise problem
    raise Corrupt(
        "the arguments and the dictionary's counts contradict each other",
        offset=8,
        field="args, dictionary",
        expected="a dimension, buckets, and size = nwords + nlabels that the file can hold",
    )


def _plausible(args: Mapping[str, Any], counts: Mapping[str, int], size: int) -> bool:
    known = counts["nwords"] >= 0 and counts["nlabels"] >= 0 and counts["size"] == counts["nwords"] + counts["nlabels"]
    room = counts["size"] * (1 + ENTRY) <= size and counts["ntokens"] >= 0
    return (
        known and room and 0 < args["dim"] < 1 << 24 and args["bucket"] >= 0 and args["minn"] >= 0 and args["maxn"] >= 0
    )


def _read_dictionary(source: Source, cursor: Cursor, args: dict[str, Any], counts: dict[str, int]) -> Model:
    if counts["pruneidx_size"] > 0:
        raise Unsupported(
            "a pruned dictionary is not read",
            offset=cursor.offset - 8,
            field="pruneidx_size",
            expected="-1 or 0",
            found=counts["pruneidx_size"],
        )
    if args["minn"] and not args["minn"] <= args["maxn"] <= MAX_N:
        raise Corrupt(
            "the n-gram lengths are not a range",
            offset=8,
            field="minn, maxn",
            expected=f"minn <= maxn <= {MAX_N}",
            found=f"{args['minn']}, {args['maxn']}",
        )
    data = source.mapped(0, source.size)
    start = cursor.offset
    walk = tables.scan(
        data, start=start, stop=source.size, count=counts["size"], delimiter=0, gap=ENTRY, newlines=False
    )
    if len(walk.strings) < counts["size"]:
        raise Truncated(
            f"word {len(walk.strings)} of {counts['size']} is not whole",
            offset=walk.end,
            field=f"word {len(walk.strings)}",
        )
    kinds = data[walk.strings.stops + ENTRY] if counts["size"] else np.empty(0, np.uint8)
    if not np.array_equal(kinds != 0, np.arange(counts["size"]) >= counts["nwords"]):
        raise Corrupt(
            "words and labels are not as many as promised",
            offset=start,
            field="dictionary.type",
            expected=f"{counts['nwords']} words, then {counts['nlabels']} labels",
        )
    notes = [f"{counts['nlabels']} labels of a classifier are left out"] if counts["nlabels"] else []
    cursor.offset = walk.end
    place = cursor.offset
    matrix = cursor.read(MATRIX)
    if matrix["quantized"]:
        raise Unsupported(
            "a quantized fastText model (.ftz) is not read",
            offset=place,
            field="quantized",
            remedy="use the .bin it was made from",
        )
    rows, dim = matrix["rows"], matrix["cols"]
    if dim != args["dim"] or rows != counts["nwords"] + args["bucket"]:
        raise Corrupt(
            "the matrix does not have a row for each word and bucket",
            offset=place + 1,
            field="matrix.rows, cols",
            expected=f"{counts['nwords'] + args['bucket']} x {args['dim']}",
            found=f"{rows} x {dim}",
        )
    cursor.require(rows * dim * 4, "matrix.data")
    return Model(args, walk.strings.slice(0, counts["nwords"]), rows, dim, cursor.offset, tuple(notes))


def _metadata(args: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: args[field] for name, field in KEYS.items()}
    found["loss"] = LOSSES[args["loss"] - 1] if 1 <= args["loss"] <= 3 else str(args["loss"])
    found["model"] = MODELS[args["model"] - 1] if 1 <= args["model"] <= 3 else str(args["model"])
    return found


def _arguments(collection: Collection, indexer: FastTextIndexer | None, dim: int) -> dict[str, Any]:
    """The arguments from metadata where it has them; what only training knew is -1, as other writers leave it."""
    args: dict[str, Any] = dict.fromkeys(PLAIN.fields, -1)
    for name, field in KEYS.items():
        value = collection.metadata.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and -(2**31) <= value < 2**31:
            args[field] = value if field == "t" else int(value)
    loss, model = collection.metadata.get("loss"), collection.metadata.get("model")
    args["loss"] = LOSSES.index(loss) + 1 if loss in LOSSES else 3
    args["model"] = MODELS.index(model) + 1 if model in MODELS else 2
    args["dim"] = dim
    if args["word_ngrams"] < 1:
        args["word_ngrams"] = 1
    buckets = (indexer.buckets, indexer.min_n, indexer.max_n) if indexer is not None else (0, 0, 0)
    args["bucket"], args["minn"], args["maxn"] = buckets
    return args


def _write_words(
    sink: Sink, collection: Collection, table: Table, indexer: FastTextIndexer | None, options: WriteOptions
) -> None:
    """The words' own rows: the stored mean, times its norm, times the number of rows in it, less the n-grams' rows."""
    norms = collection.columns.get("norms")
    matrix = _in_memory(collection["subwords"]) if indexer is not None else None
    for start in range(0, collection.rows, 8192):
        stop = min(start + 8192, collection.rows)
        rows = float_rows(collection.vectors, start, stop)
        if norms is not None:
            scale_rows(rows, np.ascontiguousarray(norms[start:stop], np.float32))
        if indexer is not None and matrix is not None:
            found = ngram_rows(indexer, table.slice(start, stop))
            sums, _ = sum_rows(matrix, found, normalize=False)
            there = np.concatenate([[0], np.cumsum(found.indices >= 0)])
            counts = there[found.splits[1:]] - there[found.splits[:-1]]
            rows *= (counts + 1).astype(np.float32)[:, None]
            rows -= sums
        sink.write(rows)
        if options.progress:
            options.progress(stop, collection.rows)


def _in_memory(column: Column) -> NDArray[np.float32]:
    """A float32 matrix to add rows of: mapped where the file has it so, read otherwise."""
    view = column.view() if isinstance(column, (FileColumn, ArrayColumn)) else None
    if view is not None and view.dtype == np.float32:
        return np.ascontiguousarray(view)
    return np.ascontiguousarray(column.to_numpy(), np.float32)


FORMAT = FastText()
