"""Whether a ground truth is of a base and its queries: ids, order, distances, and an exact search of its queries.

Every listed neighbour is scored again from the rows: lists must be best first and name no row twice, and stored
distances must be the scores in the convention that the file states or its container has (`distances`), within the
tolerances of `listed`. Then queries are searched exactly, all of them where that is cheap, else an even sample: each
place must hold the exact neighbour, or one at the same distance.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import check_threads, check_whole
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.progress import check_progress
from polyvec.neighbors.distances import Convention, conventions_of, differing, fitting, from_scores
from polyvec.neighbors.inputs import Base, check_vectors, opened, opened_queries
from polyvec.neighbors.listed import (
    Listed,
    Scored,
    as_rows,
    in_order_under,
    listed_in,
    metric_of,
    out_of_order,
    score_listed,
    spread,
)
from polyvec.neighbors.metric import Metric, choose_metric, parse_metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.search import check_k
from polyvec.neighbors.truth import compute_truth

EXACT_COST = 2e11  # multiplications of the exact search: seconds
EXACT_LEAST = 8


@dataclass(frozen=True, slots=True)
class TruthCheck:
    """A ground truth that holds: under which metric, what its distances are, and how many queries were searched."""

    truth: str
    metric: str
    metric_from: str
    queries: int
    k: int
    searched: int
    distances: str | None
    notes: tuple[str, ...] = ()
    ok: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def verify_truth(
    base: Base,
    queries: Base,
    truth: Base,
    *,
    metric: str | None = None,
    sample: int | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> TruthCheck:
    """`InputError` unless a ground truth is of this base and these queries.

    `metric` may be left out where the truth, the base or the queries state it; one that contradicts the truth's own
    is an error. `sample` is how many queries are searched exactly.
    """
    check_whole(0, sample=sample)
    check_threads(threads)
    check_progress(progress)
    asked_for = None if metric is None else parse_metric(metric)
    with opened(base) as (collection, vectors), opened_queries(queries) as (also, asked), opened(truth) as (found, _):
        listed = listed_in(found)
        known = metric_of(listed, asked_for)
        choice = choose_metric(asked_for if known is None else known, [found, collection, also])
        source = (
            "given" if asked_for is not None else f"stated by {listed.label}" if known is not None else choice.source
        )
        check_vectors(vectors)
        check_vectors(asked, "the queries")
        check_k(listed.ids.shape[1], vectors, asked.row_shape[0])
        if len(listed.ids) != asked.rows:
            raise InputError(
                f"the ground truth is of {len(listed.ids)} queries and there are {asked.rows}; it is of others"
            )
        rows = as_rows(listed, collection, vectors.rows, "the ground truth")
        _refuse_repeated(rows)
        probes = scorable(asked.to_numpy())
        scored = score_listed(vectors, probes, rows, choice.metric)
        _refuse_disorder(vectors, probes, rows, scored, choice.metric)
        convention = None if listed.distances is None else _check_distances(listed, scored, choice.metric)
        some = spread(len(rows), _affordable(vectors, len(rows)) if sample is None else sample)
        exact = compute_truth(
            vectors, probes[some], k=rows.shape[1], metric=choice.metric, threads=threads, progress=progress
        )
        _compare(vectors, probes[some], rows[some], exact.rows, some, choice.metric)
        return TruthCheck(
            listed.label,
            choice.word,
            source,
            len(rows),
            rows.shape[1],
            len(some),
            None if convention is None else convention.value,
            choice.notes,
        )


def _affordable(vectors: Column, queries: int) -> int:
    each = max(1, vectors.rows * vectors.row_shape[0])
    return min(queries, max(EXACT_LEAST, int(EXACT_COST / each)))


def _refuse_repeated(rows: NDArray[np.int64]) -> None:
    ordered = np.sort(rows, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if again.any():
        query, place = map(int, np.argwhere(again)[0])
        raise InputError(f"the ground truth names row {int(ordered[query, place])} twice for query {query}")


def _refuse_disorder(
    vectors: Column, probes: NDArray[Any], rows: NDArray[np.int64], scored: Scored, metric: Metric
) -> None:
    wrong = out_of_order(scored, metric)
    if wrong.any():
        query, place = map(int, np.argwhere(wrong)[0])
        scores, _ = scored.plain()
        raise InputError(
            f"the ground truth is not of this base under {metric.word}: for query {query}, place {place + 1} (row "
            f"{int(rows[query, place + 1])}, score {scores[query, place + 1]:.6g}) is nearer than place {place} (row "
            f"{int(rows[query, place])}, score {scores[query, place]:.6g})"
            + _hint(vectors, probes[query], rows[query], metric)
        )


def _hint(vectors: Column, probe: NDArray[Any], rows: NDArray[np.int64], metric: Metric) -> str:
    others = in_order_under(vectors, probe, rows, metric)
    return f"; under {' and '.join(m.word for m in others)} its list is in order" if others else ""


def _check_distances(listed: Listed, scored: Scored, metric: Metric) -> Convention:
    """The convention that the stored distances have; an InputError where it is none, or not the file's own."""
    assert listed.distances is not None
    scores, slack = scored.plain()
    fits = fitting(listed.distances, scores, slack, metric)
    expected = listed.expected(metric)
    if not fits:
        against = (expected or conventions_of(metric))[0]
        query, place = map(int, np.argwhere(differing(listed.distances, scores, slack, against))[0])
        computed = float(from_scores(scores[query : query + 1, place], against)[0])
        raise InputError(
            f"the ground truth's distances are not of this base under {metric.word}: query {query}, place {place} holds "
            f"{float(listed.distances[query, place]):.6g} and {computed:.6g} was computed ({against})"
        )
    if expected and not set(fits) & set(expected):
        raise InputError(
            f"{listed.label}: its distances are {fits[0]}, and {_who(listed)} says {expected[0]}; programs that read it "
            "would take them for the other: write it again with polyvec truth, or convert --truth"
        )
    return next((c for c in expected if c in fits), fits[0])


def _who(listed: Listed) -> str:
    return "its metadata" if listed.convention is not None else f"the layout of {listed.container}"


def _compare(
    vectors: Column,
    probes: NDArray[Any],
    rows: NDArray[np.int64],
    true_rows: NDArray[np.int64],
    queries: NDArray[np.int64],
    metric: Metric,
) -> None:
    width = rows.shape[1]
    # Both in one list, so that they are in one unit.
    both = score_listed(vectors, probes, np.concatenate([rows, true_rows], axis=1), metric)
    mine, true = both.cut(0, width), both.cut(width)
    with np.errstate(invalid="ignore"):
        near = np.abs(mine.scores - true.scores) <= mine.slack
    wrong = ~(near | (np.isnan(mine.scores) & np.isnan(true.scores)))
    if wrong.any():
        at, place = map(int, np.argwhere(wrong)[0])
        scores, true_scores = mine.plain()[0], true.plain()[0]
        raise InputError(
            f"the ground truth is not of this base under {metric.word}: for query {int(queries[at])}, place {place}, it "
            f"names row {int(rows[at, place])} (score {scores[at, place]:.6g}), the exact neighbour is row "
            f"{int(true_rows[at, place])} (score {true_scores[at, place]:.6g})"
            + _hint(vectors, probes[at], rows[at], metric)
        )
