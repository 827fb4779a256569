"""Histograms of lengths, as reports show them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 41

Histogram = tuple[tuple[float, ...], tuple[int, ...]]  # edges, and one count fewer than edges


def histogram(values: NDArray[Any]) -> Histogram:
    """Counts of finite values in even bins; values that are all but equal get a range wide enough to show as one."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-4 * abs(high):
        pad = 0.05 * abs(high) or 0.5
        low, high = low - pad, min(high + pad, float(np.finfo(np.float64).max))
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(values, edges)
    return tuple(map(float, edges)), tuple(map(int, counts))
