"""Recall: how many of the true neighbours a result found, fair to ties.

A result's id is a hit at k when it is among the true first k, or when its distance is no worse than the k-th true
distance: which of several equal neighbours a program names is chance. Distances come from the truth itself (its
places beyond k), from the result, or from the base and the queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.neighbors.base import Base, check_vectors, opened, scorable
from polyvec.neighbors.metric import Metric, parse_metric
from polyvec.neighbors.truth import check_ids, score_listed, truth_arrays

TIE = 1e-6  # relative: distances in files are float32


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


def measure_recall(
    result: Base, truth: Base, *, k: Sequence[int] = (1, 10, 100), base: Base | None = None,
    queries: Base | None = None, metric: str = "l2",
) -> list[Recall]:  # fmt: skip
    """Recall of a result against a ground truth, at each k.

    `result` and `truth` are files, collections or arrays of ids (with distances where they have them). With `base` and
    `queries` ids are checked against the base and ties are found by the distances of the rows themselves.

    >>> measure_recall(np.array([[3, 1]]), np.array([[1, 2]]), k=[2])[0].recall
    0.5
    """
    with opened(result) as (one, _), opened(truth) as (two, _):
        found, found_distances = truth_arrays(one)
        true, true_distances = truth_arrays(two)
    if len(found) != len(true):
        raise InputError(f"the result is of {len(found)} queries and the truth of {len(true)}; they must be the same")
    if not len(true):
        raise InputError("the truth is empty; there is nothing to compare")
    for one_k in k:
        if one_k < 1:
            raise InputError(f"k is {one_k}; it must be at least 1")
        for side, ids in (("result", found), ("truth", true)):
            if one_k > ids.shape[1]:
                raise InputError(f"k is {one_k} and the {side} has {ids.shape[1]} neighbours a query; ask for less")
    found, true = found.astype(np.int64), true.astype(np.int64)
    found_keys = true_keys = None
    if base is not None and queries is not None:
        found_keys, true_keys = _keys_from_base(base, queries, found, true, parse_metric(metric))
    elif base is not None:
        with opened(base) as (_, vectors):
            check_ids(true, vectors.rows, "the truth")
            check_ids(found, vectors.rows, "the result")
    if true_keys is None and true_distances is not None:
        true_keys = _descending(true_distances)
        if found_distances is not None:
            found_keys = _descending(found_distances)
    return [recall_at(one_k, found, true, found_keys, true_keys) for one_k in k]


def recall_at(
    k: int, found: NDArray[np.int64], true: NDArray[np.int64],
    found_keys: NDArray[np.float64] | None = None, true_keys: NDArray[np.float64] | None = None,
) -> Recall:  # fmt: skip
    """Recall at k of ids against true ids; keys (higher is better) make it fair to ties."""
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
        limit = true_keys[:, k - 1 : k]
        with np.errstate(invalid="ignore"):
            allowed = limit - TIE * np.abs(limit)
        hit = hit | (real & _among(mine, np.where(true_keys >= allowed, true, -1)))
        if found_keys is not None:
            hit = hit | (real & (found_keys[:, :k] >= allowed))
    hits = np.minimum(hit.sum(axis=1), k)
    ties = int(np.maximum(hits - plain.sum(axis=1), 0).sum())
    shares = hits / k
    mean = float(shares.mean())
    low, high = interval(shares)
    return Recall(k, mean, low, high, len(true), int((shares == 1).sum()), ties)


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
    """The 95 % interval of the mean of shares in 0..1: Wilson's, with the spread that the queries show."""
    n, mean = len(shares), float(shares.mean())
    if n < 2:
        return 0.0, 1.0
    z2 = 1.96**2
    inside = mean * (1 - mean)
    # Hits of one query are not independent draws: the queries' own variance says how many they are worth.
    variance = float(shares.var(ddof=1))
    worth = n if variance <= 0 or inside <= 0 else max(n, n * inside / variance)
    centre = (mean + z2 / (2 * worth)) / (1 + z2 / worth)
    reach = 1.96 * np.sqrt(inside / worth + z2 / (4 * worth * worth)) / (1 + z2 / worth)
    return max(0.0, float(centre - reach)), 1.0 if mean == 1 else min(1.0, float(centre + reach))


def _descending(distances: NDArray[Any]) -> NDArray[np.float64]:
    """Distances as keys, whichever way the file counts: best first tells."""
    wide = distances.astype(np.float64)
    rising = np.nansum(np.diff(wide, axis=1)) >= 0
    return -wide if rising else wide


def _keys_from_base(
    base: Base, queries: Base, found: NDArray[np.int64], true: NDArray[np.int64], metric: Metric
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with opened(base) as (_, vectors), opened(queries) as (_, asked):
        check_vectors(vectors)
        check_vectors(asked, "the queries")
        if asked.row_shape != vectors.row_shape:
            dims = asked.row_shape[0], vectors.row_shape[0]
            raise InputError(f"the queries have {dims[0]} dimensions and the base has {dims[1]}; they must agree")
        if asked.rows != len(true):
            raise InputError(f"the truth is of {len(true)} queries and there are {asked.rows}; it is of others")
        check_ids(true, vectors.rows, "the truth")
        check_ids(found, vectors.rows, "the result")
        probes = scorable(asked.to_numpy())
        step = max(1, (32 << 20) // (8 * max(1, (found.shape[1] + true.shape[1]) * vectors.row_shape[0])))
        both = np.concatenate([found, true], axis=1)
        parts = [
            score_listed(vectors, probes[at : at + step], both[at : at + step], metric)
            for at in range(0, len(both), step)
        ]
        keys = np.concatenate(parts)
        keys = -keys if metric is Metric.L2 else keys
        keys = np.where(np.isnan(keys), -np.inf, keys)
        mine, theirs = keys[:, : found.shape[1]], keys[:, found.shape[1] :]
        _check_order(theirs, metric)
        return mine, theirs


def _check_order(keys: NDArray[np.float64], metric: Metric) -> None:
    """A truth of this base lists its rows best first; one of another base does not."""
    with np.errstate(invalid="ignore"):
        drop = np.diff(keys, axis=1)
        scale = np.maximum(np.abs(keys[:, 1:]), np.abs(keys[:, :-1]))
        wrong = (drop > 1e-4 * scale).any(axis=1)
    if wrong.mean() > 0.5:
        query = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"the truth is not of this base under {metric.name.lower()}: the rows it names for query {query} are not "
            "in order of their distance; compute it again, or name the metric it was made with"
        )
