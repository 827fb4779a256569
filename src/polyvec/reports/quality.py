"""quality: what a compressed collection loses, measured: size, error, distortion, norm drift and recall.

Queries are rows held out of the base (or given), kept in full precision; the truth is their exact neighbours among
all original rows, and recall says how many of those an exact search over the compressed rows still finds. Queries are
sampled, rows are not: among fewer rows neighbours lie farther apart, and every encoding looks better than it is. All
encodings are measured in one pass over the file, block by block, after one that looks at ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from polyvec.core.arguments import check_texts, check_threads, check_whole, text_list, whole_list
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.progress import check_progress, telling
from polyvec.formats.words import folded, lengths_of
from polyvec.neighbors.inputs import Base, check_vectors, opened
from polyvec.neighbors.metric import Metric, choose_metric
from polyvec.reports.histogram import Histogram
from polyvec.reports.measuring import Asked, Job, Measured, Stored, ask, measure
from polyvec.reports.runs import spread_runs
from polyvec.reports.suggestion import with_suggestion
from polyvec.reports.tally import Entry
from polyvec.reports.trials import choose_trials


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
    norm_histogram: Histogram
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


def measure_quality(  # noqa: PLR0913  # options of a public function, by keyword
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
    progress: Progress | bool | None = None,
) -> Quality:
    """Measure what encodings lose, or what one compressed file lost.

    Without `compressed`, `encodings` (all by default) are tried on the rows. `queries` gives queries instead of 500
    rows held out; `sample_queries` takes so many of either, evenly spread. `metric` is the original's own where it
    states one, else cosine. `sample_rows` measures fewer rows, in evenly spread runs: quick, but recall among fewer rows
    is higher than among all. `suggest=0.99` picks the smallest encoding that `convert` writes whose recall at the middle k
    among all rows holds that target with its whole 95 % interval.
    """
    check_whole(sample_rows=sample_rows, sample_queries=sample_queries)
    check_whole(0, seed=seed)
    check_texts(column=column)
    check_threads(threads)
    check_progress(progress)
    k = whole_list(k=k)
    tried = None if encodings is None else text_list(encodings=encodings)
    trials = [] if compressed is not None else choose_trials(tried)
    _check_sample(sample_rows, sample_queries, suggest)
    with opened(original, column) as (collection, vectors), _opened(compressed) as stored:
        if stored is not None:
            vectors, stored = alike(collection, vectors, stored)
        choice = choose_metric(metric, [collection], default=Metric.COSINE)
        _check_original(vectors, sample_rows, suggest)
        runs = spread_runs(vectors.rows, vectors.rows if sample_rows is None else sample_rows)
        job = Job(vectors, runs, sum(b - a for a, b in runs), choice, tuple(k), threads, None)
        asked = ask(job, queries, sample_queries, seed)
        if stored is not None:
            _check_stored(stored.column, vectors)
        with telling(progress, 2 * job.rows) as tell:  # rows are read twice
            measured = measure(replace(job, progress=tell), asked, trials, stored)
        found = _report(collection, job, asked, measured)
        return found if suggest is None else with_suggestion(found, suggest, original, collection, column)


def _check_sample(rows: int | None, queries: int | None, suggest: float | None) -> None:
    if (rows is not None and rows < 2) or (queries is not None and queries < 1):
        raise InputError("a sample needs at least 2 rows and 1 query")
    if suggest is not None and not (isinstance(suggest, (int, float)) and 0 < suggest <= 1):
        raise InputError(f"the recall target is {suggest}; it must be above 0 and at most 1")


def _check_original(vectors: Column, sample_rows: int | None, suggest: float | None) -> None:
    check_vectors(vectors, "the original")
    if not vectors.rows:
        raise InputError("the original is empty; there is nothing to measure")
    if suggest is not None and sample_rows is not None and sample_rows < vectors.rows:
        raise InputError(
            f"a suggestion must hold on all {vectors.rows} rows, and recall among {sample_rows} of them is higher; "
            "leave --rows (sample_rows=) out"
        )


def _check_stored(stored: Column, vectors: Column) -> None:
    check_vectors(stored, "the compressed file")
    if stored.shape != vectors.shape:
        mine, theirs = (" x ".join(map(str, c.shape)) for c in (vectors, stored))
        raise InputError(f"the original is {mine} and the compressed file is {theirs}; they must agree")


def _report(collection: Collection, job: Job, asked: Asked, found: Measured) -> Quality:
    vectors, choice = job.vectors, job.choice
    return Quality(
        source=collection.title,
        rows=vectors.rows,
        dim=job.dim,
        dtype=str(vectors.dtype),
        bytes=job.raw_bytes,
        measured_rows=found.left,
        sampled_rows=None if job.rows == vectors.rows else job.rows,
        skipped_rows=found.skipped,
        queries=len(asked.probes),
        given_queries=asked.given,
        metric=choice.word,
        metric_from=choice.source,
        notes=choice.notes,
        entries=found.entries,
        norm_histogram=found.norms,
    )


@contextmanager
def _opened(compressed: Base | None) -> Iterator[Stored | None]:
    if compressed is None:
        yield None
        return
    with opened(compressed) as found:
        yield Stored(*found)


def alike(collection: Collection, vectors: Column, other: Stored) -> tuple[Column, Stored]:
    """Two columns that can be compared: where one file has unit rows and their lengths, and the other has not, rows times
    lengths."""
    mine, theirs = lengths_of(collection), lengths_of(other.collection)
    if mine is not None and theirs is None and vectors is collection.vectors:
        vectors = folded(vectors, collection[mine])
    if theirs is not None and mine is None and other.column is other.collection.vectors:
        other = Stored(other.collection, folded(other.column, other.collection[theirs]))
    return vectors, other
