"""Neighbours that a file lists: a ground truth or a result, with what its distances are, and their scores computed again.

Tolerances: a stored score and a computed one agree within 1e-5 of the score plus 2^-22 of what float32 sums cannot
resolve, |q|^2 + |x|^2 for l2, |q| |x| for ip and 1 for cosine: what programs that compute in float32 lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.places import Place
from polyvec.formats.truth import DISTANCE_NAMES, ID_NAMES
from polyvec.kernels.lengths import near_one
from polyvec.neighbors.distances import KEY, Convention, Floats, held_by, parse_convention, to_scores
from polyvec.neighbors.inputs import Base, opened
from polyvec.neighbors.metric import Metric, stated_metric
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import check_queries

RELATIVE = 1e-5
RESOLUTION = 2.0**-22
ORDINARY = 300  # the largest power of two, up or down, whose squares and products float64 holds with all their digits
NONE = -(10**6)  # the power of nothing
GATHER_BYTES = 32 << 20  # rows fetched at once, as float64
BY_ID = "neighbors_id"  # VectorDBBench's name: these are ids of the base, not row numbers


@dataclass(frozen=True, slots=True)
class Listed:
    """Listed neighbours: ids (queries, k), distances where there are any, and what is known of both."""

    ids: NDArray[Any]
    distances: NDArray[Any] | None
    convention: Convention | None  # as its metadata says
    container: str  # whose table holds for it: ann-benchmarks, big-ann, cuvs, or none
    metric: Metric | None  # as it states
    label: str
    by_id: bool = False  # whether its ids are the base's own, not row numbers

    def expected(self, metric: Metric) -> list[Convention]:
        """What its distances should be under a metric: as stated, else as its container holds them; else empty."""
        if self.convention is not None:
            return [self.convention] if self.convention.metric is metric else []
        return held_by(self.container, metric)


def read_listed(source: Base, label: str = "the ground truth") -> Listed:
    """Ids and distances of a ground truth or a result, by their usual names or from a file of distances beside it."""
    with opened(source) as (found, _):
        return listed_in(found, label)


def listed_in(found: Collection, label: str = "the ground truth") -> Listed:
    """Ids and distances of an open collection."""
    names = {name.lower(): name for name in found.columns}
    ids = next((found[names[n]] for n in ID_NAMES if n in names), found.vectors)
    distances = next((found[names[n]] for n in DISTANCE_NAMES if n in names), None)
    if ids.dtype.kind not in "iu" or len(ids.shape) != 2:
        raise InputError(
            f"column {ids.name!r} holds {ids.dtype} of shape {ids.shape}; expected neighbours' ids, one row a query"
        )
    container = container_of(found)
    array = None if distances is None else distances.to_numpy()
    if array is None and found.place is not None:
        array = _distances_beside(found.place, ids.shape)
        container = container if array is None else "cuvs"
    if array is not None and array.shape != ids.shape:
        raise InputError(f"{label}: distances of shape {array.shape} do not belong to ids of shape {ids.shape}")
    statement = stated_metric(found)
    name = label if found.place is None else found.place.name
    return Listed(
        ids.to_numpy(),
        array,
        parse_convention(found.metadata.get(KEY)),
        container,
        None if statement is None else statement.metric,
        name,
        ids.name.lower() == BY_ID,
    )


def container_of(found: Collection) -> str:
    """Whose conventions a file follows: ann-benchmarks' where it has their attribute, big-ann's in its own layout."""
    if found.format != "truth" and isinstance(found.metadata.get("distance"), str):
        return "ann-benchmarks"
    return "big-ann" if found.format == "truth" else ""


def _distances_beside(place: Place, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Distances that cuVS and `truth --style cuvs` keep in a second file; None where there is none."""
    names = [f"{place.stem}.distances.fbin"]
    if ".neighbors." in place.name:
        names.append(f"{place.stem}.fbin".replace(".neighbors.", ".distances."))
    for beside in map(place.sibling, names):
        if beside.is_file():
            with formats.open(beside) as found:
                return found.vectors.to_numpy()
    return None


def metric_of(listed: Listed, given: Metric | None) -> Metric | None:
    """The metric of listed neighbours; an InputError where another is given than the file states."""
    known = listed.metric
    if known is None and listed.convention is not None:
        known = listed.convention.metric
    if given is not None and known is not None and known is not given:
        raise InputError(
            f"{listed.label} states {known.word} and {given.word} was asked for; leave --metric (metric=) out, or name "
            "a ground truth of that metric"
        )
    return given if given is not None else known


def read_scores(listed: Listed, metric: Metric) -> tuple[Floats, list[str]]:
    """The listed distances as scores of a metric; notes say what had to be assumed. Needs distances."""
    assert listed.distances is not None
    wide = listed.distances.astype(np.float64)
    ends = np.where(np.isfinite(wide), wide, np.nan)
    with np.errstate(invalid="ignore"):
        drift = float(np.nansum(np.diff(ends, axis=1)))
    expected = listed.expected(metric)
    if listed.convention is not None and not expected:
        raise InputError(f"{listed.label} holds distances that are {listed.convention}, not of {metric.word}")
    stated = listed.convention is not None or listed.container == "ann-benchmarks"
    able = expected or held_by("big-ann", metric)
    fit = [c for c in able if drift == 0 or (drift > 0) == c.rising]
    if stated and not fit:
        raise InputError(
            f"{listed.label} says that its distances are {able[0]}, but they {'rise' if drift > 0 else 'fall'} from the "
            "best neighbour on; compute it again, or name the metric it was made with"
        )
    if not fit:
        other = {Metric.IP: Convention.MINUS, Metric.COSINE: Convention.ANGULAR}.get(metric)
        if other is None or drift < 0:
            raise InputError(f"{listed.label} holds distances that fall from the best neighbour on: not {metric.word}")
        fit = [other]
    notes = [] if stated else [f"the distances of {listed.label} are taken to be {fit[0]}; nothing in it says so"]
    return to_scores(wide, fit[0]), notes


def check_ids(ids: NDArray[Any], rows: int, label: str = "the ground truth") -> None:
    """`InputError` where an id is no row of the base; -1 stands for a neighbour that was not found."""
    if ids.dtype.kind not in "iu" or ids.ndim != 2:
        raise InputError(f"{label} holds {ids.dtype} of shape {ids.shape}; expected ids, one row a query")
    bad = np.argwhere((ids < -1) | (ids >= rows)) if ids.dtype.kind == "i" else np.argwhere(ids >= rows)
    if len(bad):
        query, place = map(int, bad[0])
        raise InputError(
            f"{label}: id {int(ids[query, place])} of query {query} (place {place}) is out of range; the base has "
            f"{rows} rows, ids are 0 to {rows - 1}"
        )


def as_rows(listed: Listed, collection: Collection, rows: int, label: str) -> NDArray[np.int64]:
    """Listed ids as row numbers of the base: its own ids are looked up where the file lists those."""
    own = collection.ids
    if not listed.by_id or not isinstance(own, Column) or own.rows != rows:
        check_ids(listed.ids, rows, label)
        return listed.ids.astype(np.int64)
    return look_up(listed.ids, own.to_numpy().astype(np.int64), label)


def look_up(ids: NDArray[Any], own: NDArray[np.int64], label: str) -> NDArray[np.int64]:
    """The rows that have these ids; -1 stays."""
    order = np.argsort(own, kind="stable")
    place = np.minimum(np.searchsorted(own[order], ids), len(own) - 1)
    rows = order[place].astype(np.int64)
    missing = (own[rows] != ids) & (ids != -1)
    if missing.any():
        query, where = map(int, np.argwhere(missing)[0])
        raise InputError(
            f"{label}: no row of the base has the id {int(ids[query, where])} (query {query}, place {where})"
        )
    rows[ids == -1] = -1
    return rows


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of listed rows, one list a query, in units of 2^`power` of that query; NaN for an id of -1.

    The unit is 1 for values of ordinary size. Of others it keeps what float64 products would lose, so that the order
    within a list, and how far its scores lie apart, is that of the rows. `slack` is how far a float32 program may be off.
    """

    scores: Floats
    slack: Floats
    power: NDArray[np.int32]  # (queries, 1)

    def cut(self, start: int, stop: int | None = None) -> Scored:
        """The places `start` to `stop` of every list."""
        return Scored(self.scores[:, start:stop], self.slack[:, start:stop], self.power)

    def plain(self) -> tuple[Floats, Floats]:
        """Scores and slack as they are: 0 or infinity where float64 does not reach."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(self.scores, self.power), np.ldexp(self.slack, self.power)


def score_listed(column: Column, queries: NDArray[Any], ids: NDArray[np.int64], metric: Metric) -> Scored:
    """float64 scores of listed rows, at any scale of rows and queries."""
    probes = check_queries(queries, metric)
    scores, slack, power = np.empty(ids.shape), np.empty(ids.shape), np.empty((len(ids), 1), np.int32)
    for start, stop in _pieces(len(ids), ids.shape[1] * max(1, column.row_shape[0])):
        part = _score(column, probes[start:stop], ids[start:stop], metric)
        scores[start:stop], slack[start:stop], power[start:stop] = part.scores, part.slack, part.power
    return Scored(scores, slack, power)


def _pieces(queries: int, values: int) -> Iterator[tuple[int, int]]:
    step = max(1, GATHER_BYTES // (8 * max(1, values)))
    return ((at, min(at + step, queries)) for at in range(0, queries, step))


def _score(column: Column, probes: Floats, ids: NDArray[np.int64], metric: Metric) -> Scored:
    wanted, inverse = np.unique(np.maximum(ids, 0), return_inverse=True)
    rows = scorable(column.take(wanted)).astype(np.float64)
    where = inverse.reshape(ids.shape)
    power, by, own_by = np.zeros((3, len(ids), 1), np.int32)
    if metric is Metric.COSINE:  # to which lengths are nothing
        rows, probes = near_one(rows), near_one(probes)
    else:
        highest, own_highest = _exponents(rows)[where].max(axis=1, initial=NONE), _exponents(probes)
        if metric is Metric.L2:
            highest = own_highest = np.maximum(highest, own_highest)
        by, own_by = _shifts(highest)[:, None], _shifts(own_highest)[:, None]
        power = by + own_by
    with np.errstate(all="ignore"):
        probes = np.ldexp(probes, -own_by)
        gathered = rows[where] if not by.any() else np.ldexp(rows[where], -by[:, :, None])
        lengths = np.einsum("qkd,qkd->qk", gathered, gathered)
        own = np.einsum("ij,ij->i", probes, probes)[:, None]
        if metric is Metric.L2:
            scores = ((gathered - probes[:, None, :]) ** 2).sum(axis=2)
            unresolved = own + lengths
        else:
            scores = np.einsum("qkd,qd->qk", gathered, probes)
            unresolved = np.sqrt(own) * np.sqrt(lengths)
            if metric is Metric.COSINE:
                scores = np.where(lengths > 0, scores / unresolved, 0.0)
                unresolved = np.ones(ids.shape)
        slack = RELATIVE * np.abs(scores) + RESOLUTION * unresolved
    sound = np.asarray(np.isfinite(rows).all(axis=1))
    scores[(ids < 0) | ~sound[where]] = np.nan
    return Scored(scores, slack, power)


def _exponents(values: Floats) -> NDArray[np.int32]:
    """The power of two just above each row's largest value; `NONE` for rows of zeros, and those not finite."""
    peaks = np.abs(values).max(axis=1, initial=0.0)
    return np.where((peaks > 0) & np.isfinite(peaks), np.frexp(peaks)[1], NONE).astype(np.int32)


def _shifts(exponents: NDArray[np.int32]) -> NDArray[np.int32]:
    """The powers of two to divide by; 0 where squares and products stay in range without."""
    return np.where((np.abs(exponents) <= ORDINARY) | (exponents == NONE), 0, exponents).astype(np.int32)


def out_of_order(scored: Scored, metric: Metric, wider: float = 1) -> NDArray[np.bool_]:
    """Places whose neighbour is better than the one before, beyond so many times the slack; shape (queries, k - 1)."""
    keys = -scored.scores if metric is Metric.L2 else scored.scores
    slack = wider * scored.slack
    with np.errstate(invalid="ignore"):
        return np.asarray(np.diff(keys, axis=1) > slack[:, 1:] + slack[:, :-1])


def spread(count: int, most: int) -> NDArray[np.int64]:
    """Up to `most` of `count` numbers, evenly spread."""
    return np.unique(np.linspace(0, max(0, count - 1), min(most, count)).astype(np.int64))


def in_order_under(column: Column, query: NDArray[Any], ids: NDArray[np.int64], but: Metric) -> Sequence[Metric]:
    """Metrics under which a query's list is best first: what a truth of another metric was made with."""
    found = []
    for metric in Metric:
        if metric is not but and len(ids) > 2:
            scored = score_listed(column, query[None], ids[None], metric)
            if not out_of_order(scored, metric).any():
                found.append(metric)
    return found
