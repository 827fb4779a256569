"""The three metrics, as keys where higher is better.

========  =====================================  =============================
metric    score                                  best
========  =====================================  =============================
`ip`      q . x                                  highest
`cosine`  q . x / (|q| |x|), 0 for a zero row    highest
`l2`      |q - x|^2 (squared)                    lowest; the key is its minus
========  =====================================  =============================
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError


class Metric(IntEnum):
    """A metric; the numbers are those of native/rescores.cpp."""

    IP = 0
    COSINE = 1
    L2 = 2


NAMES = {"ip": Metric.IP, "cosine": Metric.COSINE, "l2": Metric.L2}


def parse_metric(name: str | Metric) -> Metric:
    """The metric of this name; an InputError names the three."""
    if isinstance(name, Metric):
        return name
    found = NAMES.get(str(name).lower())
    if found is None:
        raise InputError(f"metric {name!r} is unknown; use one of {', '.join(NAMES)}")
    return found


def scores_of(keys: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    """The scores behind the keys: distances are positive and ascend."""
    return -keys if metric is Metric.L2 else keys
