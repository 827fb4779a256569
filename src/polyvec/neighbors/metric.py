"""The three metrics, as keys where higher is better, and the one rule for which of them ranks.

========  =====================================  =============================
metric    score                                  best
========  =====================================  =============================
`ip`      q . x                                  highest
`cosine`  q . x / (|q| |x|), 0 for a zero row    highest
`l2`      |q - x|^2 (squared)                    lowest; the key is its minus
========  =====================================  =============================

The rule, for everything that ranks: the metric that the caller names; else the one that the collection states
(metadata such as ann-benchmarks' `distance`); else cosine for a search or a quality report, while a ground truth or a
recall with distances asks, because a wrong guess there goes into a file or a figure unseen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.formats import near


class Metric(IntEnum):
    """A metric; the numbers are those of native/rescores.cpp."""

    IP = 0
    COSINE = 1
    L2 = 2

    @property
    def word(self) -> str:
        """Its name as people write it: ip, cosine or l2."""
        return self.name.lower()


NAMES = {"ip": Metric.IP, "cosine": Metric.COSINE, "l2": Metric.L2}
# What the field calls them, without case, spaces, dashes and underscores.
ALIASES = {
    **NAMES,
    "dot": Metric.IP,
    "dotproduct": Metric.IP,
    "innerproduct": Metric.IP,
    "mips": Metric.IP,
    "maxinnerproduct": Metric.IP,
    "angular": Metric.COSINE,
    "cos": Metric.COSINE,
    "cosinesimilarity": Metric.COSINE,
    "euclidean": Metric.L2,
    "sqeuclidean": Metric.L2,
    "squaredeuclidean": Metric.L2,
    "squaredl2": Metric.L2,
    "l2sq": Metric.L2,
}
OTHERS = ("hamming", "jaccard", "manhattan", "l1", "chebyshev", "linf", "canberra", "tanimoto")  # stated, not had
# Keys of metadata that state a metric: ours, ann-benchmarks', Milvus', Qdrant's, sentence-transformers', Chroma's.
KEYS = ("metric", "distance", "metric_type", "distance_metric", "similarity_fn_name", "similarity", "hnsw:space")


@dataclass(frozen=True, slots=True)
class Choice:
    """The metric that ranks, where it came from in words, and what is to be said about it."""

    metric: Metric
    source: str  # "given", "default", or "stated by FILE (KEY=VALUE)"
    notes: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The metric's name."""
        return self.metric.word


@dataclass(frozen=True, slots=True)
class Statement:
    """What a collection says of its metric; `metric` is None for one that polyvec does not have."""

    metric: Metric | None
    by: str


def parse_metric(name: str | Metric) -> Metric:
    """The metric of this name, or of a name the field has for it; an InputError names the three."""
    if isinstance(name, Metric):
        return name
    found = ALIASES.get(_plain(str(name)))
    if found is None:
        raise InputError(f"metric {name!r} is unknown; use one of {', '.join(NAMES)}{near(str(name), NAMES)}")
    return found


def stated_metric(collection: Collection) -> Statement | None:
    """What the collection's metadata says of its metric; `InputError` where it says two."""
    found: list[Statement] = []
    label = collection.place.name if collection.place else collection.path or "the collection"
    for key in KEYS:
        value = collection.metadata.get(key)
        if not isinstance(value, str):
            continue
        by = f"{label} ({key}={value})"
        if _plain(value) in ALIASES:
            found.append(Statement(ALIASES[_plain(value)], by))
        elif _plain(value) in OTHERS:
            found.append(Statement(None, by))
    for other in found[1:]:
        if other.metric is not found[0].metric:
            raise InputError(
                f"two metrics are stated: {found[0].by} and {other.by}; name the right one with --metric (metric=)"
            )
    return found[0] if found else None


def choose_metric(
    given: str | Metric | None, collections: Iterable[Collection] = (), *, default: Metric | None = None
) -> Choice:
    """The metric by the rule above; without a default an InputError asks for one where nothing states it."""
    if given is not None:
        chosen = parse_metric(given)
        return Choice(chosen, "given", tuple(_contradictions(chosen, collections)))
    statement = next((s for s in map(stated_metric, collections) if s is not None), None)
    if statement is not None and statement.metric is None:
        raise InputError(
            f"{statement.by} states a metric that polyvec does not have; name one with --metric (metric=): "
            f"{', '.join(NAMES)}"
        )
    if statement is not None and statement.metric is not None:
        return Choice(statement.metric, f"stated by {statement.by}")
    if default is None:
        raise InputError(f"nothing states the metric; name it with --metric (metric=): {', '.join(NAMES)}")
    return Choice(default, "default")


def _contradictions(chosen: Metric, collections: Iterable[Collection]) -> Iterable[str]:
    for collection in collections:
        try:
            statement = stated_metric(collection)
        except InputError:  # it says two: the caller has decided between them
            continue
        if statement is not None and statement.metric is not chosen:
            yield f"ranked by {chosen.word} as asked; {statement.by} states another metric"


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def scores_of(keys: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    """The scores behind the keys: distances are positive and ascend."""
    return -keys if metric is Metric.L2 else keys
