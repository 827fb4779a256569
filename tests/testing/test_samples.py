"""Samples: rows that are the same on every run, and tolerances for a column or for all."""

from __future__ import annotations

import numpy as np

from polyvec.core.collection import Collection
from polyvec.testing import Sample, vectors


def test_rows_are_the_same_on_every_run_and_of_the_kind_asked_for() -> None:
    assert np.array_equal(vectors(3, 2), vectors(3, 2)) and not np.array_equal(vectors(3, 2), vectors(3, 2, seed=1))
    whole = vectors(500, 4, np.int8)
    assert whole.dtype == np.int8 and (whole.min(), whole.max()) == (-128, 127)


def test_a_tolerance_is_for_all_columns_or_for_some() -> None:
    collection = Collection.from_arrays(vectors(1, 1))
    assert Sample("s", collection, tolerance=0.5).allowed_error("any") == 0.5
    assert Sample("s", collection, tolerance={"v": 0.5}).allowed_error("w") == 0
