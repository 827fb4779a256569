"""What one does with word embeddings: choose words, make buckets explicit, quantise and know the loss."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.core.blocks import cast
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, Column
from polyvec.core.errors import InputError
from polyvec.core.subwords import BucketIndexer, Composed, ExplicitIndexer, FastTextIndexer, compose
from polyvec.core.views import TakeColumn
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.words import lengths_of
from polyvec.kernels import strings as tables
from polyvec.kernels.lengths import row_lengths
from polyvec.kernels.subwords import ngram_table
from polyvec.verbs.convert import convert
from polyvec.words.storage import Storage
from polyvec.writing.options import RoadOptions, shows_options
from polyvec.writing.receipts import Receipt

WORDS_AT_ONCE = 1 << 16
SAMPLE = 4096  # rows whose cosine is measured
QUERIES = 100  # words whose ten neighbours are compared


@dataclass(frozen=True, slots=True)
class QuantizationLoss:
    """What quantising lost: cosines between rows before and after, and how many of ten neighbours stayed."""

    rows: int
    mean_cosine: float
    worst_cosine: float
    queries: int
    recall_at_10: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def select(collection: Collection, words: Sequence[str]) -> tuple[Collection, list[str]]:
    """The embeddings of chosen words, in their order, and the words that have none.

    A word that is not in the vocabulary gets the vector that its subwords give: their mean, as fastText and floret
    take it, so that it is as long as those of known words. Of equal words the first is meant. The result has no
    subwords.
    """
    if collection.vocab is None:
        raise InputError("a file without words has none to select")
    wanted = list(dict.fromkeys(words))
    rows = collection.vocab.indices(wanted)
    unknown = np.flatnonzero(rows < 0)
    made = vectors_from_subwords(collection, [wanted[i] for i in unknown])
    has = rows >= 0
    has[unknown] = made.found
    result = np.empty((len(wanted), collection.dim), np.float32)
    result[rows >= 0] = cast(collection.vectors.take(rows[rows >= 0]), np.dtype(np.float32))
    result[unknown] = made.vectors
    columns: dict[str, Column] = {"vectors": ArrayColumn("vectors", result[has])}
    norms = lengths_of(collection)
    if norms is not None or not collection.rows:
        lengths = np.empty(len(wanted), np.float32)
        if norms is not None:
            lengths[rows >= 0] = collection[norms].take(rows[rows >= 0])
        lengths[unknown] = made.means
        columns["norms"] = ArrayColumn("norms", lengths[has])
        columns["norms"].lengths = True
    kept = [word for word, there in zip(wanted, has) if there]
    chosen = Collection(columns, vocab=Vocab(kept), metadata=collection.metadata, format=collection.format)
    repeated = set(collection.vocab.words[collection.vocab.duplicates]) & set(kept)
    if repeated:
        some = ", ".join(sorted(repeated)[:5]) + (", …" if len(repeated) > 5 else "")
        chosen.notes.append(f"{len(repeated)} of the words stand more than once, and the first row is taken: {some}")
    return chosen, [word for word, there in zip(wanted, has) if not there]


def vectors_from_subwords(collection: Collection, words: Sequence[str]) -> Composed:
    """What subwords give to words; only the rows needed are read."""
    subwords = collection.vocab.subwords if collection.vocab is not None else None
    take = collection["subwords"].take if "subwords" in collection.columns else None
    return compose(subwords, tables.pack(list(words)), collection.dim, take=take)


def bucket_to_explicit(collection: Collection) -> Collection:
    """The same embeddings with the n-grams of their words spelled out; buckets that no word uses are left behind."""
    indexer = collection.vocab.subwords if collection.vocab is not None else None
    if not isinstance(indexer, (BucketIndexer, FastTextIndexer)) or "subwords" not in collection.columns:
        kind = "no" if indexer is None else indexer.kind
        raise InputError(f"only bucket and fastText subwords can be made explicit, and this file has {kind} subwords")
    assert collection.vocab is not None
    words = collection.vocab.words.table
    pieces, targets = [], []
    for start in range(0, len(words), WORDS_AT_ONCE):
        piece = words.slice(start, start + WORDS_AT_ONCE)
        found, _ = ngram_table(piece, min_n=indexer.min_n, max_n=indexer.max_n)
        rows = indexer.lookup(piece).indices  # in the order of the n-grams
        first = _firsts(found)
        pieces.append(Strings.from_table(_packed(found.take(first))))
        targets.append(rows[first])
    ngrams = Strings.concat(pieces) if pieces else Strings.from_words([])
    buckets = np.concatenate(targets) if targets else np.empty(0, np.int64)
    first = _firsts(ngrams.table)
    ngrams, buckets = ngrams.view(first), buckets[first]
    distinct, appeared, inverse = np.unique(buckets, return_index=True, return_inverse=True)
    order = np.argsort(appeared)
    places = np.empty(len(distinct), np.int64)
    places[order] = np.arange(len(distinct))
    explicit = ExplicitIndexer(indexer.min_n, indexer.max_n, ngrams, places[inverse.reshape(-1)])
    columns = {**collection.columns, "subwords": TakeColumn(collection["subwords"], distinct[order])}
    return Collection(
        columns,
        main=collection.main,
        vocab=Vocab(collection.vocab.words, subwords=explicit),
        metadata=collection.metadata,
        format=collection.format,
        path=collection.path,
    )


def _firsts(table: tables.Table) -> NDArray[np.int64]:
    """The rows of strings that no earlier row has."""
    keep = np.ones(len(table), bool)
    keep[tables.build_index(table).duplicates] = False
    return np.flatnonzero(keep)


def _packed(table: tables.Table) -> tables.Table:
    """The strings over bytes of their own, so that the text they come from can go."""
    stops = np.cumsum(table.stops - table.starts)
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if len(stops) else stops
    return tables.Table(tables.join(table), starts, stops)


@shows_options(RoadOptions)
def quantize(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    quantizer: str = "pq",
    parts: int | None = None,
    bits: int = 8,
    iterations: int = 25,
    seed: int = 42,
    norms: bool = True,
    **options: Unpack[RoadOptions],
) -> tuple[Receipt, QuantizationLoss]:
    """Write a finalfusion file whose matrix is product codes, and measure what was lost.

    ``parts`` bytes a row (half the dimension by default) of ``bits`` bits; ``quantizer="opq"`` also learns a rotation.
    """
    training: dict[str, Any] = {
        "quantizer": quantizer,
        "bits": bits,
        "iterations": iterations,
        "seed": seed,
        "norms": norms,
    }
    if parts is not None:
        training["parts"] = parts
    receipt = convert(source, target, encoding="pq", format="finalfusion", **training, **options)
    with formats.open(source) as before, formats.open(target, format="finalfusion") as after:
        return receipt, measure_quantization(before, after)


@shows_options(RoadOptions)
def reconstruct(
    source: str | os.PathLike[str], target: str | os.PathLike[str], **options: Unpack[RoadOptions]
) -> Receipt:
    """Write a quantised file with its rows decoded."""
    return convert(source, target, encoding="raw", **options)


def measure_quantization(before: Collection, after: Collection) -> QuantizationLoss:
    """Cosines of up to 4096 rows, and the ten nearest words of up to 100, before and after."""
    rows = np.unique(np.linspace(0, before.rows - 1, min(SAMPLE, before.rows)).astype(np.int64))
    one = before.vectors.take(rows).astype(np.float64)
    two = after.vectors.take(rows).astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosines = np.divide((one * two).sum(axis=1), lengths, out=np.ones(len(rows)), where=lengths > 0)
    asked = rows[np.unique(np.linspace(0, len(rows) - 1, min(QUERIES, len(rows))).astype(np.int64))]
    lengths = row_lengths(before.vectors.take(asked))
    asked = asked[(lengths > 0) & np.isfinite(lengths)]
    queries = before.vectors.take(asked).astype(np.float64)
    k = min(10, before.rows - 1)
    kept = 0
    if k > 0 and len(asked):
        exact, found = (
            Storage(one.vectors, mmap=True).search().nearest_many(queries, k + 1) for one in (before, after)
        )
        for row, (right, _), (given, _) in zip(asked, exact, found):
            kept += len(set(right[right != row][:k].tolist()) & set(given[given != row][:k].tolist()))
    recall = kept / (k * len(asked)) if k > 0 and len(asked) else 1.0
    return QuantizationLoss(len(rows), float(cosines.mean()), float(cosines.min()), len(asked), recall)
