"""quality: what a compressed collection loses, measured: size, error, distortion, norm drift and recall.

Queries are rows held out of the base (or given), kept in full precision; the truth is their exact neighbours among
the original rows, and recall says how many of those an exact search over the compressed rows still finds. All
encodings are measured in one pass over the file, block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.neighbors.base import Base, check_vectors, opened, scorable
from polyvec.neighbors.metric import Choice, Metric, choose_metric
from polyvec.neighbors.recall import Recall, recall_at
from polyvec.neighbors.scan import RowBlock, Scan
from polyvec.neighbors.trials import Decode, Look, Trial, choose_trials

Singles = NDArray[np.float32]

ROWS = 200_000  # measured at most, in evenly spread runs: what bounds the time
QUERIES = 500
RUN_ROWS = 8192
SAMPLE = 16384  # rows that codebooks are learnt from
ERROR_BINS = np.concatenate([[0.0], np.logspace(-10, 2, 61), [np.inf]])


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoding's figures. Errors are absolute, per value; distortion is 1 - cosine; drift is relative."""

    name: str
    title: str
    bytes: int
    ratio: float
    max_error: float
    mean_error: float
    max_distortion: float
    mean_distortion: float
    norm_drift: float
    recalls: tuple[Recall, ...]
    error_histogram: tuple[int, ...] = ()
    failed: str | None = None

    def recall(self, k: int) -> Recall | None:
        """The recall at k, where it was measured."""
        return next((r for r in self.recalls if r.k == k), None)


@dataclass(frozen=True, slots=True)
class Quality:
    """A report on one collection."""

    source: str
    rows: int
    dim: int
    dtype: str
    bytes: int
    measured_rows: int
    skipped_rows: int
    queries: int
    held_out: bool
    metric: str
    metric_from: str
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]
    norm_histogram: tuple[tuple[float, ...], tuple[int, ...]]
    suggestion: str | None = None
    target: tuple[int, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def measure_quality(
    original: Base,
    compressed: Base | None = None,
    *,
    encodings: Sequence[str] | None = None,
    queries: Base | None = None,
    metric: str | None = None,
    k: Sequence[int] = (1, 10, 100),
    sample_queries: int = QUERIES,
    sample_rows: int = ROWS,
    suggest: float | None = None,
    column: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Quality:
    """Measure what encodings lose, or what one compressed file lost.

    Without `compressed`, `encodings` (all by default) are tried on the rows. `queries` gives queries instead of rows
    held out. `suggest=0.99` picks the smallest encoding whose recall at the middle k holds that target with its
    whole 95 % interval.
    """
    trials = [] if compressed is not None else choose_trials(None if encodings is None else list(encodings))
    if sample_rows < 2 or sample_queries < 1:
        raise InputError("a sample needs at least 2 rows and 1 query")
    if suggest is not None and not 0 < suggest <= 1:
        raise InputError(f"the recall target is {suggest}; it must be above 0 and at most 1")
    with opened(original, column) as (collection, vectors):
        chosen = choose_metric(metric, [collection], default=Metric.COSINE)
        check_vectors(vectors, "the original")
        if not vectors.rows:
            raise InputError("the original is empty; there is nothing to measure")
        runs = spread_runs(vectors.rows, sample_rows)
        others: list[tuple[Collection, Column]] = []
        if compressed is None:
            return _measure(
                collection,
                vectors,
                runs,
                trials,
                others,
                queries,
                chosen,
                k,
                sample_queries,
                suggest,
                seed,
                threads,
                progress,
            )
        with opened(compressed) as other:
            check_vectors(other[1], "the compressed file")
            if other[1].shape != vectors.shape:
                mine, theirs = (" x ".join(map(str, c.shape)) for c in (vectors, other[1]))
                raise InputError(f"the original is {mine} and the compressed file is {theirs}; they must agree")
            return _measure(
                collection,
                vectors,
                runs,
                trials,
                [other],
                queries,
                chosen,
                k,
                sample_queries,
                suggest,
                seed,
                threads,
                progress,
            )


def spread_runs(rows: int, most: int) -> list[tuple[int, int]]:
    """Ranges of rows, evenly spread, of at most `most` rows together; all rows where they are few enough."""
    if rows <= most:
        return [(at, min(at + RUN_ROWS, rows)) for at in range(0, rows, RUN_ROWS)]
    length = min(RUN_ROWS, max(1, most // 8))
    count = max(1, most // length)
    starts = np.linspace(0, rows - length, count).astype(np.int64)
    return [(int(s), int(s) + length) for s in np.unique(starts)]


def _measure(
    collection: Collection, vectors: Column, runs: list[tuple[int, int]], trials: list[Trial],
    others: list[tuple[Collection, Column]], queries: Base | None, choice: Choice, k: Sequence[int],
    sample_queries: int, suggest: float | None, seed: int, threads: int | None, progress: Progress | None,
) -> Quality:  # fmt: skip
    metric = choice.metric
    look, total, skipped = _look(vectors, runs)
    probes, held = _queries(vectors, runs, queries, metric, sample_queries, seed)
    kept = total - skipped - len(held)
    if kept < 1:
        raise InputError(f"{total} rows are too few to hold queries out of; give queries")
    ks = [one for one in k if one <= kept]
    if not ks or min(ks) < 1:
        raise InputError(f"k must be from 1 to the {kept} rows that are left; found {', '.join(map(str, k))}")
    tables: list[_Tally] = []
    for trial in trials:
        tally = _Tally(
            trial.name,
            trial.title,
            trial.row_bytes(vectors.row_shape[0]) * vectors.rows,
            probes,
            max(ks),
            metric,
            threads,
        )
        try:
            tally.decode = trial.fit(look)
        except InputError as error:
            tally.failed = str(error)
        tables.append(tally)
    for other, column in others:
        title = Path(other.path).name if other.path else "compressed"
        tables.append(_Tally(title, column.encoding, _size(other, column), probes, max(ks), metric, threads))
        tables[-1].column = column
    truth = Scan(probes, k=max(ks), metric=metric, threads=threads)
    norms: list[NDArray[np.float64]] = []
    first = 0
    for number, (start, stop) in enumerate(runs):
        rows, chosen = _clean(vectors, start, stop, held)
        ids = np.arange(first, first + len(rows), dtype=np.int64)
        first += len(rows)
        truth.feed(RowBlock(int(ids[0]) if len(ids) else 0, len(rows), rows, ids=ids))
        norms.append(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))
        for tally in tables:
            tally.add(rows, norms[-1], ids, start, stop, chosen)
        if progress is not None:
            progress(number + 1, len(runs))
    true_ids, true_scores = truth.result()
    true_keys = -true_scores if metric is Metric.L2 else true_scores
    raw = vectors.rows * vectors.row_shape[0] * vectors.dtype.itemsize
    entries = tuple(tally.entry(true_ids, true_keys, ks, raw) for tally in tables)
    lengths = np.concatenate(norms)
    low, high = float(lengths.min()), float(lengths.max())
    if high - low < 1e-4 * max(high, 1e-30):  # all but equal: one bar, not the noise
        low, high = low - 0.05 * low - 1e-9, high + 0.05 * high + 1e-9
    edges = np.linspace(low, high, 42)
    counts, _ = np.histogram(lengths, edges)
    suggestion, target = None, None
    if suggest is not None:
        at = ks[len(ks) // 2]
        target = (at, suggest)
        suggestion = pick_smallest(entries, at, suggest)
    return Quality(
        collection.path or "memory", vectors.rows, vectors.row_shape[0], str(vectors.dtype), raw, kept, skipped,
        len(probes), queries is None, choice.word, choice.source, choice.notes, entries,
        (tuple(map(float, edges)), tuple(map(int, counts))), suggestion, target,
    )  # fmt: skip


def pick_smallest(entries: Sequence[Entry], k: int, target: float) -> str:
    """The smallest encoding whose recall at k is at least `target` with its whole interval; "raw" where none is."""
    able = []
    for entry in entries:
        found = entry.recall(k)
        if entry.failed is None and found is not None and (found.low >= target or (target == 1 and found.recall == 1)):
            able.append(entry)
    return min(able, key=lambda entry: entry.bytes).name if able else "raw"


class _Tally:
    """One encoding's sums, and its own scan."""

    def __init__(
        self, name: str, title: str, size: float, probes: NDArray[Any], k: int, metric: Metric, threads: int | None
    ) -> None:
        self.name, self.title, self.size = name, title, round(size)
        self.scan = Scan(probes, k=k, metric=metric, threads=threads)
        self.decode: Decode | None = None
        self.column: Column | None = None
        self.failed: str | None = None
        self.values = self.rows = 0
        self.max_error = self.sum_error = self.max_turn = self.sum_turn = self.sum_drift = 0.0
        self.histogram = np.zeros(len(ERROR_BINS) - 1, np.int64)

    def add(
        self, rows: Singles, norms: NDArray[np.float64], ids: NDArray[np.int64], start: int, stop: int,
        chosen: NDArray[np.intp],
    ) -> None:  # fmt: skip
        if self.failed is not None or not len(rows):
            return
        try:
            if self.column is not None:
                after = np.ascontiguousarray(scorable(self.column[start:stop])[chosen].astype(np.float32))
            else:
                assert self.decode is not None
                after = np.ascontiguousarray(self.decode(rows))
        except InputError as error:
            self.failed = str(error)
            return
        self.scan.feed(RowBlock(int(ids[0]), len(after), after, ids=ids))
        with np.errstate(all="ignore"):
            gap = np.abs(rows - after)
            self.max_error = max(self.max_error, float(gap.max(initial=0.0)))
            self.sum_error += float(gap.sum(dtype=np.float64))
            some = gap[:: max(1, len(gap) // 512)]
            self.histogram += np.histogram(some, ERROR_BINS)[0]
            lengths = np.sqrt(np.einsum("ij,ij->i", after, after, dtype=np.float64))
            products = np.einsum("ij,ij->i", rows, after, dtype=np.float64)
            both = norms * lengths
            turn = np.where(both > 0, 1 - products / both, np.where(norms == lengths, 0.0, 1.0))
            drift = np.where(norms > 0, np.abs(lengths - norms) / norms, (lengths > 0).astype(float))
        self.max_turn = max(self.max_turn, float(turn.max()))
        self.sum_turn += float(np.maximum(turn, 0).sum())
        self.sum_drift += float(drift.sum())
        self.rows += len(rows)
        self.values += rows.size

    def entry(self, true_ids: NDArray[np.int64], true_keys: NDArray[np.float64], ks: Sequence[int], raw: int) -> Entry:
        found, _ = self.scan.result()
        nothing = (0.0,) * 5
        if self.failed is not None or not self.rows:
            return Entry(
                self.name, self.title, self.size, raw / max(1, self.size), *nothing, (), (), self.failed or "no rows"
            )
        recalls = tuple(recall_at(k, found, true_ids, None, true_keys) for k in ks)
        return Entry(
            self.name, self.title, self.size, raw / max(1, self.size), self.max_error, self.sum_error / self.values,
            max(0.0, self.max_turn), self.sum_turn / self.rows, self.sum_drift / self.rows, recalls,
            tuple(map(int, self.histogram)),
        )  # fmt: skip


def _look(vectors: Column, runs: list[tuple[int, int]]) -> tuple[Look, int, int]:
    """A first pass: range, sample, rows, and rows that are not finite."""
    low, high, total, skipped = np.inf, -np.inf, 0, 0
    rows_wanted = max(1, sum(stop - start for start, stop in runs) // SAMPLE)
    pieces = []
    for start, stop in runs:
        rows, _ = _clean(vectors, start, stop, np.empty(0, np.int64))
        total += stop - start
        skipped += stop - start - len(rows)
        if len(rows):
            low, high = min(low, float(rows.min())), max(high, float(rows.max()))
            pieces.append(rows[::rows_wanted])
    if not pieces:
        raise InputError("no row is finite; there is nothing to measure")
    return Look(low, high, np.ascontiguousarray(np.concatenate(pieces))), total, skipped


def _clean(vectors: Column, start: int, stop: int, held: NDArray[np.int64]) -> tuple[Singles, NDArray[np.intp]]:
    """Finite rows of a range as float32, without those held out, and which they are."""
    with np.errstate(over="ignore"):
        rows = np.asarray(scorable(vectors[start:stop]), np.float32)
    good: NDArray[np.bool_] = np.asarray(np.isfinite(rows).all(axis=1))
    good[held[(held >= start) & (held < stop)] - start] = False
    chosen = np.flatnonzero(good)
    return np.ascontiguousarray(rows if len(chosen) == len(rows) else rows[chosen]), chosen


def _queries(
    vectors: Column, runs: list[tuple[int, int]], queries: Base | None, metric: Metric, most: int, seed: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The queries, and the rows of the base that they are."""
    nothing = np.empty(0, np.int64)
    if queries is not None:
        with opened(queries) as (_, asked):
            check_vectors(asked, "the queries")
            if asked.row_shape != vectors.row_shape:
                dims = asked.row_shape[0], vectors.row_shape[0]
                raise InputError(
                    f"the queries have {dims[0]} dimensions and the original has {dims[1]}; they must agree"
                )
            return scorable(asked[: max(1, most)]), nothing
    rows = np.concatenate([np.arange(start, stop) for start, stop in runs])
    rng = np.random.default_rng(seed)
    count = min(most, max(1, len(rows) // 10))
    held = np.sort(rng.choice(rows, count, replace=False))
    found = scorable(vectors.take(held)).astype(np.float32)
    good = np.isfinite(found).all(axis=1)
    if metric is Metric.COSINE:
        good &= (found != 0).any(axis=1)
    if not good.any():
        raise InputError("the rows held out as queries are all zero or not finite; give queries")
    return found[good], held[good]


def _size(collection: Collection, column: Column) -> float:
    """Bytes of the compressed file: of the file where there is one, else of the decoded column."""
    if collection.path is not None and Path(collection.path).is_file():
        return float(Path(collection.path).stat().st_size)
    return float(column.nbytes)
