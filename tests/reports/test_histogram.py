"""Histograms: every value is counted, and lengths that are all but equal are one bar."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.reports.histogram import BINS, histogram


def test_every_value_is_counted_in_even_bins():
    values = np.random.default_rng(0).standard_normal(1000) ** 2
    edges, counts = histogram(values)
    assert len(counts) == BINS and sum(counts) == 1000 and (edges[0], edges[-1]) == (values.min(), values.max())
    assert np.allclose(np.diff(edges), edges[1] - edges[0])


@pytest.mark.parametrize("value", [1.0, 0.0, 1e-20, 1e20, np.finfo(np.float64).max])
def test_values_that_are_all_but_equal_are_one_bar_in_the_middle(value):
    edges, counts = histogram(np.array([value, value * (1 - 1e-6), value]))
    assert np.isfinite(edges).all() and max(counts) == 3 and edges[0] < value <= edges[-1]
