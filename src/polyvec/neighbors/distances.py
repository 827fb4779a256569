"""What the distances in a ground-truth file are: one table, and the way from one kind to another.

==================  =================  =============  ====================  ==========================================
container           l2                 cosine         ip                    where
==================  =================  =============  ====================  ==========================================
`ann-benchmarks`    euclidean          1 - cosine     minus inner product   HDF5 with an attribute `distance`
`big-ann`           squared euclidean  cosine         inner product         ids and distances in one file, as faiss
`diskann`           squared euclidean  2 - 2 cosine   inner product         the same layout; cosine by unit rows
`cuvs`              squared euclidean  1 - cosine     inner product         ids and distances in two files
==================  =================  =============  ====================  ==========================================

ann-benchmarks itself knows `euclidean` and `angular`; its forks that add `dot` or `ip` hold minus the product, so that
lower is better, as everywhere there. VectorDBBench keeps ids alone. Files of polyvec say what they hold in their
metadata, under `distances`; that comes before the table. Scores are those of `metric.py`: l2 squared, cosine, product.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.neighbors.metric import Metric

Floats = NDArray[np.float64]


class Convention(StrEnum):
    """What a number called a distance is."""

    SQUARED = "squared euclidean"
    EUCLIDEAN = "euclidean"
    COSINE = "cosine"
    ANGULAR = "1 - cosine"
    CHORD = "2 - 2 cosine"
    PRODUCT = "inner product"
    MINUS = "minus inner product"

    @property
    def metric(self) -> Metric:
        """The metric it is a distance of."""
        return METRICS[self]

    @property
    def rising(self) -> bool:
        """Whether the best comes with the lowest number."""
        return self not in (Convention.COSINE, Convention.PRODUCT)


METRICS: Mapping[Convention, Metric] = {
    Convention.SQUARED: Metric.L2,
    Convention.EUCLIDEAN: Metric.L2,
    Convention.COSINE: Metric.COSINE,
    Convention.ANGULAR: Metric.COSINE,
    Convention.CHORD: Metric.COSINE,
    Convention.PRODUCT: Metric.IP,
    Convention.MINUS: Metric.IP,
}
TABLE: Mapping[str, Mapping[Metric, Convention]] = {
    "ann-benchmarks": {
        Metric.L2: Convention.EUCLIDEAN,
        Metric.COSINE: Convention.ANGULAR,
        Metric.IP: Convention.MINUS,
    },
    "big-ann": {Metric.L2: Convention.SQUARED, Metric.COSINE: Convention.COSINE, Metric.IP: Convention.PRODUCT},
    "diskann": {Metric.L2: Convention.SQUARED, Metric.COSINE: Convention.CHORD, Metric.IP: Convention.PRODUCT},
    "cuvs": {Metric.L2: Convention.SQUARED, Metric.COSINE: Convention.ANGULAR, Metric.IP: Convention.PRODUCT},
}
LABELS = {Metric.L2: "euclidean", Metric.COSINE: "angular", Metric.IP: "dot"}  # ann-benchmarks' `distance`
KEY = "distances"  # of metadata, where polyvec says what a file holds
ALL = tuple(Convention)
LEAST = 2.0**-146  # a few steps of float32 where they are smallest


def conventions_of(metric: Metric) -> list[Convention]:
    """The kinds of distance that rank by a metric, the plain scores first."""
    return [c for c in ALL if c.metric is metric]


def held_by(container: str, metric: Metric) -> list[Convention]:
    """What a container may hold under a metric, the usual first; big-ann's layout is DiskANN's too."""
    names = ("big-ann", "diskann") if container == "big-ann" else (container,)
    found = [TABLE[name][metric] for name in names if name in TABLE]
    return list(dict.fromkeys(found))


def parse_convention(value: Any) -> Convention | None:
    """The convention a file's metadata names; None where it names none that is known."""
    return next((c for c in ALL if value == c.value), None)


def to_scores(distances: NDArray[Any], convention: Convention) -> Floats:
    """Distances as float64 scores."""
    wide = distances.astype(np.float64)
    if convention is Convention.EUCLIDEAN:
        return np.asarray(wide * np.abs(wide))  # a negative length stays wrong
    if convention is Convention.ANGULAR:
        return np.asarray(1 - wide)
    if convention is Convention.CHORD:
        return np.asarray(1 - wide / 2)
    return -wide if convention is Convention.MINUS else wide


def from_scores(scores: Floats, convention: Convention) -> NDArray[np.float32]:
    """Scores as the float32 distances that files hold."""
    if convention is Convention.EUCLIDEAN:
        scores = np.sqrt(np.maximum(scores, 0))
    elif convention is Convention.ANGULAR:
        scores = 1 - scores
    elif convention is Convention.CHORD:
        scores = 2 - 2 * scores
    elif convention is Convention.MINUS:
        scores = -scores
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def lost_range(scores: Floats, distances: NDArray[np.float32]) -> list[str]:
    """What to say of distances that float32 could not hold: which neighbours tie is lost in such a file."""
    infinite = int(np.count_nonzero(np.isinf(distances) & ~np.isnan(scores)))
    least = np.finfo(np.float32).smallest_normal
    vanished = int(np.count_nonzero((np.abs(distances) < least) & (scores != 0) & (np.abs(scores) < least)))
    return [
        f"{count} of {distances.size} distances are {what} float32 holds and are {how} in the file; the ids are exact"
        for count, what, how in ((infinite, "beyond what", "infinity"), (vanished, "below what", "0 or a rest"))
        if count
    ]


def recast(distances: NDArray[Any], before: Convention, after: Convention) -> NDArray[np.float32]:
    """Distances of one convention in another of the same metric."""
    if before.metric is not after.metric:
        raise InputError(f"distances that are {before} cannot become {after}: the metrics differ")
    if before is after:
        return distances.astype(np.float32, copy=False)
    return from_scores(to_scores(distances, before), after)


def fitting(distances: NDArray[Any], scores: Floats, slack: Floats, metric: Metric) -> list[Convention]:
    """The conventions under which stored distances are these scores, up to `slack`; several where all are 0 or 1."""
    return [c for c in conventions_of(metric) if not differing(distances, scores, slack, c).any()]


def differing(distances: NDArray[Any], scores: Floats, slack: Floats, convention: Convention) -> NDArray[np.bool_]:
    """Where stored distances are not these scores. A score that is NaN asks for a NaN or for nothing (-1, infinity).

    Beyond float32's range the stored ones are infinity, or what is left of its digits.
    """
    with np.errstate(all="ignore"):
        told = to_scores(distances, convention)
        near = np.abs(told - scores) <= slack
        held, single = from_scores(scores, convention), distances.astype(np.float32)
        near |= (held == single) | (np.abs(held - single) <= LEAST)
    return np.asarray(~(near | np.isnan(scores)))
