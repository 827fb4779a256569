"""Recall: how many of the true neighbours a result found, fair to ties.

A result's id is a hit at k when it is among the true first k, or when its distance is no worse than the k-th true
distance: which of several equal neighbours a program names is chance. Distances come from the truth itself (its
places beyond k), from the result, or from the base and the queries; files' distances are brought to one convention
first (`distances`), so a truth in Euclidean distances and a result in squared ones compare. What a result says of its
own distances makes a tie only where it equals the k-th: one that is better, of a row that the truth does not list, is
no distance of that row, but what a compressed index took for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import whole_list
from polyvec.core.errors import InputError
from polyvec.neighbors.inputs import Base, check_vectors, opened, opened_queries
from polyvec.neighbors.listed import (
    Listed,
    Scored,
    as_rows,
    listed_in,
    metric_of,
    out_of_order,
    read_scores,
    score_listed,
)
from polyvec.neighbors.metric import Choice, Metric, choose_metric, parse_metric
from polyvec.neighbors.rows import scorable

USUAL = (1, 10, 100)
TIE = 1e-6  # relative: distances in files are float32
TIE_COSINE = 2.0**-23  # absolute: what float32 resolves near 1
T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # 97.5 % of Student's t, 1 to 9 degrees


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall at one k: the mean over queries with its 95 % interval, and how many queries were perfect."""

    k: int
    recall: float
    low: float
    high: float
    queries: int
    perfect: int
    ties: int  # hits that only ties explain

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Recall at each k asked for. `metric` is None where ids alone were compared: no distance took part."""

    recalls: tuple[Recall, ...]
    metric: str | None
    metric_from: str | None
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Recall]:
        return iter(self.recalls)

    def __len__(self) -> int:
        return len(self.recalls)

    def __getitem__(self, number: int) -> Recall:
        return self.recalls[number]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def measure_recall(
    result: Base,
    truth: Base,
    *,
    k: Sequence[int] | None = None,
    base: Base | None = None,
    queries: Base | None = None,
    metric: str | None = None,
) -> RecallReport:
    """Recall of a result against a ground truth, at each k: 1, 10 and 100 where both list so many, by default.

    `result` and `truth` are files, collections or arrays of ids (with distances where they have them). With `base` and
    `queries` ids are checked against the base and ties are found by the distances of the rows themselves. Where
    distances take part and no file states the metric, it must be named; a metric that contradicts the truth's is an
    error.

    >>> measure_recall(np.array([[3, 1]]), np.array([[1, 2]]), k=[2])[0].recall
    0.5
    """
    if k is not None:
        k = whole_list(k=k)
    asked_for = given = None if metric is None else parse_metric(metric)
    with opened(result) as (one, _), opened(truth) as (two, _):
        mine, theirs = listed_in(one, "the result"), listed_in(two, "the truth")
        for listed in (theirs, mine):
            known = metric_of(listed, given)
            if known is not None and asked_for is None:
                asked_for, stated_by = known, listed.label
            elif known is not None and asked_for is not None and known is not asked_for:
                raise InputError(
                    f"the two files are of different metrics, which do not compare: {mine.label} states {known.word} and "
                    f"{theirs.label} {asked_for.word}; name a ground truth by {known.word}"
                )
    width = min(mine.ids.shape[1], theirs.ids.shape[1])
    k = k if k is not None else [one for one in USUAL if one <= width]
    source = "given" if metric is not None else None if asked_for is None else f"stated by {stated_by}"
    _check_shapes(mine, theirs, k)
    found_keys = true_keys = None
    choice: Choice | None = None
    notes: list[str] = []
    if base is not None and queries is not None:
        with opened(base) as (collection, _), opened_queries(queries) as (also, _):
            choice = choose_metric(asked_for, [collection, also])
            notes += choice.notes
        found, true, found_keys, true_keys = _keys_from_base(base, queries, mine, theirs, choice.metric)
    elif base is not None:
        with opened(base) as (collection, vectors):
            true = as_rows(theirs, collection, vectors.rows, "the truth")
            found = as_rows(mine, collection, vectors.rows, "the result")
    else:
        found, true = mine.ids.astype(np.int64), theirs.ids.astype(np.int64)
        if mine.by_id != theirs.by_id:
            notes.append(
                f"{(mine if mine.by_id else theirs).label} lists ids of the base, the other row numbers; "
                "name the base to look them up"
            )
    if true_keys is None and theirs.distances is not None:
        choice = choose_metric(asked_for)
        scores, said = read_scores(theirs, choice.metric)
        true_keys, notes = _keys(scores, choice.metric), [*notes, *said]
        if mine.distances is not None:
            scores, said = read_scores(mine, choice.metric)
            found_keys, notes = _keys(scores, choice.metric), [*notes, *said]
            notes += _doubts(found, true, found_keys, true_keys, choice.metric, mine.label)
    used = None if choice is None else choice.metric
    told = base is None or queries is None
    recalls = tuple(recall_at(one_k, found, true, found_keys, true_keys, used, told=told) for one_k in k)
    if choice is None:
        return RecallReport(recalls, None, None, tuple(notes))
    return RecallReport(recalls, choice.word, source or choice.source, tuple(notes))


def _check_shapes(mine: Listed, theirs: Listed, k: Sequence[int]) -> None:
    if len(mine.ids) != len(theirs.ids):
        raise InputError(
            f"the result is of {len(mine.ids)} queries and the truth of {len(theirs.ids)}; they must be the same"
        )
    if not len(theirs.ids):
        raise InputError("the truth is empty; there is nothing to compare")
    for one_k in k:
        if one_k < 1:
            raise InputError(f"k is {one_k}; it must be at least 1")
        for side, ids in (("result", mine.ids), ("truth", theirs.ids)):
            if one_k > ids.shape[1]:
                raise InputError(f"k is {one_k} and the {side} has {ids.shape[1]} neighbours a query; ask for less")


def _keys(scores: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    return -scores if metric is Metric.L2 else scores


def recall_at(
    k: int,
    found: NDArray[np.int64],
    true: NDArray[np.int64],
    found_keys: NDArray[np.float64] | None = None,
    true_keys: NDArray[np.float64] | None = None,
    metric: Metric | None = None,
    *,
    told: bool = False,
) -> Recall:
    """Recall at k of ids against true ids; keys (higher is better) make it fair to ties.

    With `told` the found keys are the result's own word: a better one than the k-th true key proves nothing.
    """
    mine, goal = found[:, :k], true[:, :k]
    real = mine >= 0
    # A repeated id counts once: the first of it.
    order = np.argsort(mine, axis=1, kind="stable")
    sorted_mine = np.take_along_axis(mine, order, axis=1)
    repeated = np.zeros_like(real)
    np.put_along_axis(repeated, order[:, 1:], sorted_mine[:, 1:] == sorted_mine[:, :-1], axis=1)
    real &= ~repeated
    plain = real & _among(mine, goal)
    hit = plain
    if true_keys is not None:
        allowed, most = _tie_range(true_keys[:, k - 1 : k], true[:, k - 1 : k], metric)
        with np.errstate(invalid="ignore"):
            hit = hit | (real & _among(mine, np.where(true_keys >= allowed, true, -1)))
            if found_keys is not None:
                keys = found_keys[:, :k]
                hit = hit | (real & (keys >= allowed) & ((keys <= most) | (not told)))
    hits = np.minimum(hit.sum(axis=1), k)
    ties = int(np.maximum(hits - plain.sum(axis=1), 0).sum())
    shares = hits / k
    mean = float(shares.mean())
    low, high = interval(shares)
    return Recall(k, mean, low, high, len(true), int((shares == 1).sum()), ties)


def _doubts(
    found: NDArray[np.int64],
    true: NDArray[np.int64],
    found_keys: NDArray[np.float64],
    true_keys: NDArray[np.float64],
    metric: Metric,
    label: str,
) -> list[str]:
    """A note where a result's distances cannot be those of its rows: better than the last true one, and not listed."""
    _, most = _tie_range(true_keys[:, -1:], true[:, -1:], metric)
    with np.errstate(invalid="ignore"):
        wrong = int(np.count_nonzero((found >= 0) & (found_keys > most) & ~_among(found, true)))
    if not wrong:
        return []
    return [
        f"{wrong} distances of {label} are nearer than the truth's last and of ids that it does not list: they are "
        "approximations and make no ties; name the base and the queries to compare the rows themselves"
    ]


def _tie_range(
    limit: NDArray[np.float64], ids: NDArray[np.int64], metric: Metric | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The keys between which a neighbour is as near as the k-th; NaN, which nothing reaches, where there is no k-th."""
    with np.errstate(invalid="ignore"):
        slack = TIE * np.abs(limit)
        if metric is Metric.COSINE:  # near 1 a relative slack would make neighbours of all directions equal
            slack = TIE * np.abs(1 - limit) + TIE_COSINE
        there = (ids >= 0) & np.isfinite(limit)
        return np.where(there, limit - slack, np.nan), np.where(there, limit + slack, np.nan)


def _among(ids: NDArray[np.int64], listed: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which ids are in their own query's list; -1 is in none."""
    if not ids.size or not listed.size:
        return np.zeros(ids.shape, bool)
    span = int(max(ids.max(), listed.max())) + 2
    if len(ids) * span >= 2**62:
        return np.array([np.isin(a, b[b >= 0]) for a, b in zip(ids, listed)])
    offset = (np.arange(len(ids), dtype=np.int64) * span)[:, None]
    wanted = (listed + offset)[listed >= 0]
    return np.isin(ids + offset, wanted) & (ids >= 0)


def interval(shares: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of the mean of shares in 0..1: Wilson's, with the spread that the queries show.

    Few queries tell little of their spread: Student's t takes the place of 1.96. Where all queries agree there is no
    spread to go by, and each counts as one trial: 100 of 100 perfect queries give 0.963 to 1.
    """
    n, mean = len(shares), float(shares.mean())
    if n < 2:
        return 0.0, 1.0
    inside = mean * (1 - mean)
    # Hits of one query are not independent draws: the queries' own variance says how many they are worth.
    variance = float(shares.var(ddof=1))
    spread = variance > 1e-18 and inside > 0
    worth = max(n, n * inside / variance) if spread else n
    z = _student(n - 1) if spread else 1.96
    z2 = z * z
    centre = (mean + z2 / (2 * worth)) / (1 + z2 / worth)
    reach = z * np.sqrt(inside / worth + z2 / (4 * worth * worth)) / (1 + z2 / worth)
    low, high = max(0.0, float(centre - reach)), min(1.0, float(centre + reach))
    return 0.0 if mean == 0 else min(low, mean), 1.0 if mean == 1 else max(high, mean)


def _student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t; beyond the table an expansion good to 0.001."""
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    return 1.95996 + 2.37225 / degrees + 2.82250 / degrees**2


def _keys_from_base(
    base: Base, queries: Base, mine: Listed, theirs: Listed, metric: Metric
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Ids as rows of the base, and their keys computed from the rows."""
    with opened(base) as (collection, vectors), opened_queries(queries) as (_, asked):
        check_vectors(vectors)
        check_vectors(asked, "the queries")
        if asked.row_shape != vectors.row_shape:
            dims = asked.row_shape[0], vectors.row_shape[0]
            raise InputError(f"the queries have {dims[0]} dimensions and the base has {dims[1]}; they must agree")
        if asked.rows != len(theirs.ids):
            raise InputError(f"the truth is of {len(theirs.ids)} queries and there are {asked.rows}; it is of others")
        true = as_rows(theirs, collection, vectors.rows, "the truth")
        found = as_rows(mine, collection, vectors.rows, "the result")
        probes = scorable(asked.to_numpy())
        both = np.concatenate([found, true], axis=1)
        scored = score_listed(vectors, probes, both, metric)
        width = found.shape[1]
        _check_order(scored.cut(width), metric)
        keys = _keys(scored.scores, metric)  # of one unit a query: they are compared within it alone
        keys = np.where(np.isnan(keys), -np.inf, keys)
        return found, true, keys[:, :width], keys[:, width:]


def _check_order(scored: Scored, metric: Metric) -> None:
    """A truth of this base lists its rows best first; one of another base does not."""
    wrong = out_of_order(scored, metric).any(axis=1)
    if wrong.mean() > 0.1:
        query = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"the truth is not of this base under {metric.word}: the rows it names for query {query} are not "
            "in order of their distance; compute it again, or name the metric it was made with"
        )
