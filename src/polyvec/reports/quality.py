"""quality: what a compressed collection loses, measured: size, error, distortion, norm drift and recall.

Queries are rows held out of the base (or given), kept in full precision; the truth is their exact neighbours among
all original rows, and recall says how many of those an exact search over the compressed rows still finds. Queries are
sampled, rows are not: among fewer rows neighbours lie farther apart, and every encoding looks better than it is. All
encodings are measured in one pass over the file, block by block, after one that looks at ranges.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.formats.cvc.encoding import CHUNK_ROWS
from polyvec.formats.words import folded, lengths_of
from polyvec.neighbors.inputs import Base, check_vectors, opened, opened_queries, scorable
from polyvec.neighbors.listed import spread
from polyvec.neighbors.metric import Choice, Metric, choose_metric
from polyvec.neighbors.scan import Scan
from polyvec.reports.tally import Entry, Rows, Tally, cut, feed
from polyvec.reports.trials import TRIALS, Look, Trial, choose_trials

HELD_OUT = 500  # queries, where none are given
MOST_GIVEN = 10_000  # of given queries; of more, so many evenly spread
RUN_ROWS = 8192
SAMPLE = 16384  # rows that codebooks are learnt from
NORMS = 200_000  # lengths in the histogram
NOTABLE = 0.01  # by which an encoding that nothing writes must be smaller to be worth a word
BEYOND = 16  # true neighbours listed beyond the largest k, to see what ties with the last


@dataclass(frozen=True, slots=True)
class Quality:
    """A report on one collection. `command` writes what is suggested; `smaller` would hold too, but nothing writes it.

    `undecided` is smaller too and reached the target, but not with its whole interval: so few queries do not tell.
    """

    source: str
    rows: int
    dim: int
    dtype: str
    bytes: int
    measured_rows: int
    sampled_rows: int | None  # None where all rows were measured
    skipped_rows: int
    queries: int
    given_queries: int | None  # None where rows were held out
    metric: str
    metric_from: str
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]
    norm_histogram: tuple[tuple[float, ...], tuple[int, ...]]
    suggestion: str | None = None
    target: tuple[int, float] | None = None
    command: str | None = None
    smaller: str | None = None
    undecided: str | None = None

    @property
    def held_out(self) -> bool:
        """Whether the queries are rows of the base that were left out of it."""
        return self.given_queries is None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "held_out": self.held_out}


@dataclass(frozen=True, slots=True)
class _Job:
    """What is measured, and how."""

    vectors: Column
    runs: list[tuple[int, int]]
    rows: int  # of all runs
    choice: Choice
    k: tuple[int, ...]
    threads: int | None
    progress: Progress | None


def measure_quality(
    original: Base,
    compressed: Base | None = None,
    *,
    encodings: Sequence[str] | None = None,
    queries: Base | None = None,
    metric: str | None = None,
    k: Sequence[int] = (1, 10, 100),
    sample_queries: int | None = None,
    sample_rows: int | None = None,
    suggest: float | None = None,
    column: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Quality:
    """Measure what encodings lose, or what one compressed file lost.

    Without `compressed`, `encodings` (all by default) are tried on the rows. `queries` gives queries instead of 500
    rows held out; `sample_queries` takes so many of either, evenly spread. `metric` is the original's own where it
    states one, else cosine. `sample_rows` measures fewer rows, in evenly spread runs: quick, but recall among fewer rows
    is higher than among all. `suggest=0.99` picks the smallest encoding that `convert` writes whose recall at the middle k
    among all rows holds that target with its whole 95 % interval.
    """
    trials = [] if compressed is not None else choose_trials(None if encodings is None else list(encodings))
    if (sample_rows is not None and sample_rows < 2) or (sample_queries is not None and sample_queries < 1):
        raise InputError("a sample needs at least 2 rows and 1 query")
    if suggest is not None and not 0 < suggest <= 1:
        raise InputError(f"the recall target is {suggest}; it must be above 0 and at most 1")
    with opened(original, column) as (collection, vectors), _opened(compressed) as second:
        if second is not None:
            vectors, second = alike(collection, vectors, *second)
        choice = choose_metric(metric, [collection], default=Metric.COSINE)
        check_vectors(vectors, "the original")
        if not vectors.rows:
            raise InputError("the original is empty; there is nothing to measure")
        if suggest is not None and sample_rows is not None and sample_rows < vectors.rows:
            raise InputError(
                f"a suggestion must hold on all {vectors.rows} rows, and recall among {sample_rows} of them is higher; "
                "leave --rows (sample_rows=) out"
            )
        runs = spread_runs(vectors.rows, vectors.rows if sample_rows is None else sample_rows)
        job = _Job(vectors, runs, sum(b - a for a, b in runs), choice, tuple(k), threads, progress)
        asked = _queries(job, queries, sample_queries, seed)
        if second is not None:
            stored = second[1]
            check_vectors(stored, "the compressed file")
            if stored.shape != vectors.shape:
                mine, theirs = (" x ".join(map(str, c.shape)) for c in (vectors, stored))
                raise InputError(f"the original is {mine} and the compressed file is {theirs}; they must agree")
        found = _measure(job, collection, trials, second, asked)
        return found if suggest is None else _suggest(found, suggest, original, collection, column)


@contextmanager
def _opened(compressed: Base | None) -> Iterator[tuple[Collection, Column] | None]:
    if compressed is None:
        yield None
        return
    with opened(compressed) as found:
        yield found


def alike(
    collection: Collection, vectors: Column, other: Collection, stored: Column
) -> tuple[Column, tuple[Collection, Column]]:
    """Two columns that can be compared: where one file has unit rows and their lengths, and the other has not, rows times
    lengths."""
    mine, theirs = lengths_of(collection), lengths_of(other)
    if mine is not None and theirs is None and vectors is collection.vectors:
        vectors = folded(vectors, collection[mine])
    if theirs is not None and mine is None and stored is other.vectors:
        stored = folded(stored, other[theirs])
    return vectors, (other, stored)


def spread_runs(rows: int, most: int) -> list[tuple[int, int]]:
    """Ranges of rows, evenly spread, of at most `most` rows together; all rows where they are few enough."""
    if rows <= most:
        return [(at, min(at + RUN_ROWS, rows)) for at in range(0, rows, RUN_ROWS)]
    length = min(RUN_ROWS, max(1, most // 8))
    count = max(1, most // length)
    starts = np.linspace(0, rows - length, count).astype(np.int64)
    return [(int(s), int(s) + length) for s in np.unique(starts)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The queries, the rows of the base that they are, and how many were given."""

    probes: NDArray[Any]
    held: NDArray[np.int64]
    given: int | None


def _measure(
    job: _Job, collection: Collection, trials: list[Trial], other: tuple[Collection, Column] | None, asked: _Asked
) -> Quality:
    vectors, metric = job.vectors, job.choice.metric
    dim = vectors.row_shape[0]
    look, skipped = _look(job)
    left = job.rows - skipped - len(asked.held)
    if left < 1:
        raise InputError(f"{job.rows} rows are too few to hold queries out of; give queries")
    ks = [one for one in job.k if one <= left]
    if not ks or min(ks) < 1:
        raise InputError(f"k must be from 1 to the {left} rows that are left; found {', '.join(map(str, job.k))}")

    def scan(beyond: int = 0) -> Scan:
        return Scan(asked.probes, k=min(left, max(ks) + beyond), metric=metric, threads=job.threads)

    tables: list[Tally] = []
    for trial in trials:
        tally = Tally(trial.name, trial.title, trial.row_bytes(dim) * vectors.rows, scan())
        try:
            tally.decode = trial.fit(look)
        except InputError as error:
            tally.failed = str(error)
        tables.append(tally)
    if other is not None:
        title = Path(other[0].title).name if other[0].path else "compressed"
        tables.append(Tally(title, other[1].encoding, _size(*other), scan()))
        tables[-1].column = other[1]
    truth = scan(BEYOND)
    norms: list[NDArray[np.float64]] = []
    done, step = job.rows, max(1, job.rows // NORMS)
    for block in _blocks(job, asked.held):
        feed(truth, block.searched, block.ids)
        norms.append(block.norms[::step])
        for tally in tables:
            tally.add(block)
        done += block.stop - block.start
        if job.progress is not None:
            job.progress(done, 2 * job.rows)
    true_ids, true_scores = truth.result()
    true_keys = -true_scores if metric is Metric.L2 else true_scores
    raw = vectors.rows * dim * vectors.dtype.itemsize
    entries = tuple(tally.entry(true_ids, true_keys, ks, raw, metric) for tally in tables)
    choice = job.choice
    return Quality(
        collection.title,
        vectors.rows,
        dim,
        str(vectors.dtype),
        raw,
        left,
        None if job.rows == vectors.rows else job.rows,
        skipped,
        len(asked.probes),
        asked.given,
        choice.word,
        choice.source,
        choice.notes,
        entries,
        _histogram(np.concatenate(norms)),
    )


def _histogram(lengths: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    low, high = float(lengths.min()), float(lengths.max())
    if high - low < 1e-4 * max(high, 1e-30):  # all but equal: one bar, not the noise
        low, high = low - 0.05 * low - 1e-9, high + 0.05 * high + 1e-9
    edges = np.linspace(low, high, 42)
    counts, _ = np.histogram(lengths, edges)
    return tuple(map(float, edges)), tuple(map(int, counts))


def pick_smallest(entries: Sequence[Entry], k: int, target: float) -> str:
    """The smallest encoding whose recall at k is at least `target` with its whole interval; "raw" where none is."""
    able = []
    for entry in entries:
        found = entry.recall(k)
        if entry.failed is None and found is not None and (found.low >= target or (target == 1 and found.recall == 1)):
            able.append(entry)
    return min(able, key=_bytes).name if able else "raw"


def _suggest(found: Quality, target: float, original: Base, collection: Collection, column: str | None) -> Quality:
    """The report with the smallest encoding that can be had and holds the target, and the command that writes it."""
    ks = [one.k for one in next((e.recalls for e in found.entries if e.recalls), ())]
    if not ks:  # nothing could be measured
        return replace(found, suggestion="raw", target=None)
    at = ks[len(ks) // 2]
    able = [e for e in found.entries if e.name not in TRIALS or (e.bytes < found.bytes and _writable(e.name, found))]
    name = pick_smallest(able, at, target)
    smallest = pick_smallest([e for e in found.entries if e.bytes < found.bytes], at, target)
    sizes = {"raw": found.bytes, **{e.name: e.bytes for e in found.entries}}
    return replace(
        found,
        suggestion=name,
        target=(at, target),
        command=_command(name, original, collection, column),
        smaller=smallest if sizes[smallest] <= sizes[name] * (1 - NOTABLE) else None,
        undecided=next(
            (e.name for e in sorted(able, key=_bytes) if e.bytes < sizes[name] and _reaches(e, at, target)), None
        ),
    )


def _bytes(entry: Entry) -> int:
    return entry.bytes


def _reaches(entry: Entry, k: int, target: float) -> bool:
    found = entry.recall(k)
    return entry.failed is None and found is not None and found.recall >= target


def _writable(name: str, found: Quality) -> bool:
    target = TRIALS[name].target
    return target is not None and not (target.finite and found.skipped_rows)


def _command(name: str, original: Base, collection: Collection, column: str | None) -> str | None:
    """The command line that writes an encoding of a file; None where there is no file or nothing to write."""
    trial = TRIALS.get(name)
    if trial is None or trial.target is None or not isinstance(original, (str, os.PathLike)):
        return None
    source = Path(original)
    stem = source.stem.replace("*", "").replace("?", "").rstrip("-_.") or "all"
    words = ["polyvec", "convert", str(original), str(source.with_name(f"{stem}-{name}{trial.target.suffix}"))]
    words += ["--encoding", trial.target.encoding]
    if column is not None or len(collection.columns) > 1:
        words += ["--column", column or collection.main]
    if trial.target.suffix == ".cvc" and collection.format == "cvc":
        words += ["--option", f"chunk_rows={CHUNK_ROWS}"]  # else the source's own chunks stay
    return shlex.join(words)


def _look(job: _Job) -> tuple[Look, int]:
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
        if job.progress is not None:
            job.progress(done, 2 * job.rows)
    if not pieces:
        raise InputError("no row is finite; there is nothing to measure")
    low, high = min(r[0] for r in ranges.values()), max(r[1] for r in ranges.values())
    return Look(low, high, np.ascontiguousarray(np.concatenate(pieces)), ranges), skipped


def _blocks(job: _Job, held: NDArray[np.int64]) -> Iterator[Rows]:
    for start, stop in job.runs:
        yield cut(start, stop, *_finite(job.vectors, start, stop), held)


def _finite(vectors: Column, start: int, stop: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Finite rows of a range as float32, and their numbers."""
    with np.errstate(over="ignore"):
        rows = np.asarray(scorable(vectors[start:stop]), np.float32)
    good = np.flatnonzero(np.isfinite(rows).all(axis=1))
    return np.ascontiguousarray(rows if len(good) == len(rows) else rows[good]), good + start


def _queries(job: _Job, queries: Base | None, most: int | None, seed: int) -> _Asked:
    """Given queries, or rows held out."""
    vectors = job.vectors
    if queries is not None:
        with opened_queries(queries) as (_, asked):
            check_vectors(asked, "the queries")
            if asked.row_shape != vectors.row_shape:
                dims = asked.row_shape[0], vectors.row_shape[0]
                raise InputError(
                    f"the queries have {dims[0]} dimensions and the original has {dims[1]}; they must agree"
                )
            some = spread(asked.rows, MOST_GIVEN if most is None else most)
            return _Asked(scorable(asked.take(some)), np.empty(0, np.int64), asked.rows)
    rng = np.random.default_rng(seed)
    count = min(HELD_OUT if most is None else most, max(1, job.rows // 10))
    held = np.sort(rng.choice(job.rows, count, replace=False)).astype(np.int64)
    if job.rows < vectors.rows:
        held = np.concatenate([np.arange(start, stop) for start, stop in job.runs])[held]
    with np.errstate(over="ignore"):
        found = scorable(vectors.take(held)).astype(np.float32)
    good = np.isfinite(found).all(axis=1)
    if job.choice.metric is Metric.COSINE:
        good &= (found != 0).any(axis=1)
    if not good.any():
        raise InputError("the rows held out as queries are, in float32, all zero or not finite; give queries")
    return _Asked(found[good], held[good], None)


def _size(collection: Collection, column: Column) -> float:
    """Bytes of the compressed file: of the file, or of all shards, where there is one, else of the decoded column."""
    files = [Path(file) for file in collection.files]
    if files and all(file.is_file() for file in files):
        return float(sum(file.stat().st_size for file in files))
    return float(column.nbytes)
