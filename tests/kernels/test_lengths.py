"""Lengths and unit rows are right at every scale."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from polyvec.kernels.lengths import row_lengths, unit_rows
from polyvec.testing import vectors


def exact_length(row: np.ndarray) -> Fraction:
    """The length of a row to forty digits, whatever its scale."""
    total = sum(Fraction(float(value)) ** 2 for value in row)
    shift = 10**800
    return Fraction(isqrt(int(total * shift)), 10**400)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-45, 1e-42, 1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37])
@pytest.mark.parametrize("dim", [1, 3, 300])
def test_rows_are_unit_and_lengths_exact_at_every_scale(dtype: type, scale: float, dim: int) -> None:
    rows = (vectors(5, dim).astype(np.float64) * scale).astype(dtype)
    wanted = [exact_length(row) for row in rows]
    unit, lengths = unit_rows(rows.copy())
    assert unit.dtype == np.float32
    for row, length in enumerate(wanted):
        if not length:
            assert not unit[row].any() and lengths[row] == 0
            continue
        assert abs(Fraction(float(lengths[row])) / length - 1) < Fraction(1, 10**6)
        assert np.allclose(unit[row], [float(Fraction(float(v)) / length) for v in rows[row]], atol=1e-6)
        assert np.linalg.norm(unit[row].astype(np.float64)) == pytest.approx(1, abs=1e-6)
    assert np.allclose(row_lengths(rows), [float(length) for length in wanted], rtol=1e-12, atol=0)


def test_zeros_unit_rows_and_rows_that_are_not_finite_stay_as_they_are() -> None:
    unit = vectors(1, 4)[0] / np.linalg.norm(vectors(1, 4)[0])
    rows = np.array([[0, 0, 0, 0], unit, [1, np.nan, 2, 3], [np.inf, 1, 2, 3]], np.float32)
    for given in (rows.copy(), rows.astype(np.float64)):
        found, lengths = unit_rows(given)
        assert found.tobytes() == rows.tobytes()
        assert lengths.tolist() == [0, 1, 1, 1]


def test_no_rows_and_no_values_are_no_trouble() -> None:
    for shape in ((0, 3), (2, 0)):
        unit, lengths = unit_rows(np.empty(shape, np.float32))
        assert unit.shape == shape and lengths.tolist() == [0] * shape[0]
