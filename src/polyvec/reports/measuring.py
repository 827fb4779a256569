"""The passes of a quality report: one looks at ranges, one searches the rows as they are and as encodings keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.places import Place
from polyvec.formats.cvc.encoding import CHUNK_ROWS
from polyvec.neighbors.inputs import Base, check_vectors, opened_queries
from polyvec.neighbors.listed import spread
from polyvec.neighbors.metric import Choice, Metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import Scan
from polyvec.reports.histogram import Histogram, histogram
from polyvec.reports.tally import Entry, Tally, cut, feed
from polyvec.reports.trials import Look, Trial

HELD_OUT = 500  # queries, where none are given
MOST_GIVEN = 10_000  # of given queries; of more, so many evenly spread
SAMPLE = 16384  # rows that codebooks are learnt from
NORMS = 200_000  # lengths in the histogram
BEYOND = 16  # true neighbours listed beyond the largest k, to see what ties with the last


@dataclass(frozen=True, slots=True)
class Job:
    """What is measured, and how."""

    vectors: Column
    runs: list[tuple[int, int]]
    rows: int  # of all runs
    choice: Choice
    k: tuple[int, ...]
    threads: int | None
    progress: Progress | None

    @property
    def dim(self) -> int:
        """Values of a row."""
        return self.vectors.row_shape[0]

    @property
    def raw_bytes(self) -> int:
        """What all rows take as they are."""
        return self.vectors.rows * self.dim * self.vectors.dtype.itemsize

    def tell(self, done: int) -> None:
        """Rows done, of both passes."""
        if self.progress is not None:
            self.progress(done, 2 * self.rows)


@dataclass(frozen=True, slots=True)
class Asked:
    """The queries, the rows of the base that they are, and how many were given."""

    probes: NDArray[Any]
    held: NDArray[np.int64]
    given: int | None


@dataclass(frozen=True, slots=True)
class Stored:
    """The compressed file that is compared, and its vectors."""

    collection: Collection
    column: Column


@dataclass(frozen=True, slots=True)
class Measured:
    """What the passes found; `left` rows were searched."""

    left: int
    skipped: int
    entries: tuple[Entry, ...]
    norms: Histogram


def measure(job: Job, asked: Asked, trials: Sequence[Trial], stored: Stored | None) -> Measured:
    """Every trial's entry and the compressed file's, against the exact neighbours among all rows that are searched."""
    look, skipped = _look(job)
    left = job.rows - skipped - len(asked.held)
    ks = _usable_ks(job, left)
    metric = job.choice.metric
    scan = partial(Scan, asked.probes, metric=metric, threads=job.threads)
    k = min(left, max(ks))
    tallies = [_on_trial(job, trial, look, scan(k=k)) for trial in trials]
    if stored is not None:
        tallies.append(_as_stored(stored, scan(k=k)))
    truth = scan(k=min(left, max(ks) + BEYOND))
    norms = _search(job, asked, truth, tallies)
    ids, scores = truth.result()
    keys = -scores if metric is Metric.L2 else scores
    entries = tuple(tally.entry(ids, keys, ks, job.raw_bytes, metric) for tally in tallies)
    return Measured(left, skipped, entries, histogram(norms))


def _usable_ks(job: Job, left: int) -> list[int]:
    if left < 1:
        raise InputError(f"{job.rows} rows are too few to hold queries out of; give queries")
    ks = [one for one in job.k if one <= left]
    if not ks or min(ks) < 1:
        raise InputError(f"k must be from 1 to the {left} rows that are left; found {', '.join(map(str, job.k))}")
    return ks


def _on_trial(job: Job, trial: Trial, look: Look, scan: Scan) -> Tally:
    tally = Tally(trial.name, trial.title, trial.row_bytes(job.dim) * job.vectors.rows, scan)
    try:
        tally.decode = trial.fit(look)
    except InputError as error:
        tally.failed = str(error)
    return tally


def _as_stored(stored: Stored, scan: Scan) -> Tally:
    collection, column = stored.collection, stored.column
    title = Place.of(collection.title).name if collection.path else "compressed"
    tally = Tally(title, column.encoding, _size(collection, column), scan)
    tally.column = column
    return tally


def _search(job: Job, asked: Asked, truth: Scan, tallies: Sequence[Tally]) -> NDArray[np.float64]:
    """The second pass: every row through every scan. Lengths of some of the rows."""
    norms: list[NDArray[np.float64]] = []
    done, step = job.rows, max(1, job.rows // NORMS)
    for start, stop in job.runs:
        block = cut(start, stop, *_finite(job.vectors, start, stop), asked.held)
        feed(truth, block.searched, block.ids)
        norms.append(block.norms[::step])
        for tally in tallies:
            tally.add(block)
        done += stop - start
        job.tell(done)
    return np.concatenate(norms)


def _look(job: Job) -> tuple[Look, int]:
    """A first pass: ranges, sample, and how many rows are not finite."""
    ranges: dict[int, tuple[float, float]] = {}
    skipped = done = 0
    step = max(1, job.rows // SAMPLE)
    pieces = []
    for start, stop in job.runs:
        rows, numbers = _finite(job.vectors, start, stop)
        skipped += stop - start - len(rows)
        chunks = numbers // CHUNK_ROWS
        for chunk in np.unique(chunks).tolist():
            piece = rows[chunks == chunk] if chunks[0] != chunks[-1] else rows
            low, high = ranges.get(chunk, (np.inf, -np.inf))
            ranges[chunk] = min(low, float(piece.min())), max(high, float(piece.max()))
        if len(rows):
            pieces.append(rows[::step].copy())
        done += stop - start
        job.tell(done)
    if not pieces:
        raise InputError("no row is finite; there is nothing to measure")
    low, high = min(r[0] for r in ranges.values()), max(r[1] for r in ranges.values())
    return Look(low, high, np.ascontiguousarray(np.concatenate(pieces)), ranges), skipped


def _finite(vectors: Column, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Finite rows of a range as float32, and their numbers."""
    with np.errstate(over="ignore"):
        rows = np.asarray(scorable(vectors[start:stop]), np.float32)
    good = np.flatnonzero(np.isfinite(rows).all(axis=1))
    return np.ascontiguousarray(rows if len(good) == len(rows) else rows[good]), good + start


def ask(job: Job, queries: Base | None, most: int | None, seed: int) -> Asked:
    """Given queries, or rows held out; at most so many."""
    return _held_out(job, most, seed) if queries is None else _given(job, queries, most)


def _given(job: Job, queries: Base, most: int | None) -> Asked:
    with opened_queries(queries) as (_, asked):
        check_vectors(asked, "the queries")
        if asked.row_shape != job.vectors.row_shape:
            raise InputError(
                f"the queries have {asked.row_shape[0]} dimensions and the original has {job.dim}; they must agree"
            )
        some = spread(asked.rows, MOST_GIVEN if most is None else most)
        return Asked(scorable(asked.take(some)), np.empty(0, np.int64), asked.rows)


def _held_out(job: Job, most: int | None, seed: int) -> Asked:
    rng = np.random.default_rng(seed)
    count = min(HELD_OUT if most is None else most, max(1, job.rows // 10))
    held = np.sort(rng.choice(job.rows, count, replace=False)).astype(np.int64)
    if job.rows < job.vectors.rows:
        held = np.concatenate([np.arange(start, stop) for start, stop in job.runs])[held]
    with np.errstate(over="ignore"):
        found = scorable(job.vectors.take(held)).astype(np.float32)
    good = np.isfinite(found).all(axis=1)
    if job.choice.metric is Metric.COSINE:
        good &= (found != 0).any(axis=1)
    if not good.any():
        raise InputError("the rows held out as queries are, in float32, all zero or not finite; give queries")
    return Asked(found[good], held[good], None)


def _size(collection: Collection, column: Column) -> float:
    """Bytes of the compressed file: of the file, or of all shards, where there is one, else of the decoded column."""
    found = [place.identity() for place in collection.places]
    sizes = [one.size for one in found if one is not None]
    return float(sum(sizes) if sizes and len(sizes) == len(found) else column.nbytes)
