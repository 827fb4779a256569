"""Norm-tuned rounding: the native kernel equals its reference, and both keep the document's bounds."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.kernels import NATIVE, available_paths, rounding, use_path
from polyvec.kernels.rounding import SQUARES_HIGH, SQUARES_LOW, round_levels, round_levels_reference


def unit_rows(rows: int, dim: int, *, seed: int = 7, recipe: str = "isotropic") -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim))
    if recipe == "clustered":
        x = 0.3 * x + rng.standard_normal((20, dim))[rng.integers(0, 20, rows)]
    if recipe == "outliers":
        x[:, :3] *= 12
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


needs_native = pytest.mark.skipif(not NATIVE, reason="the native module is not built")
PATHS = [path for path in available_paths() if path != "numpy"]


@needs_native
@pytest.mark.parametrize("cpu", PATHS)
@pytest.mark.parametrize("recipe", ["isotropic", "clustered", "outliers"])
@pytest.mark.parametrize("how", ["norm", "nearest"])
def test_native_equals_the_reference(cpu, recipe, how):
    for dim in (1, 3, 31, 512, 700):
        x = unit_rows(300, dim, recipe=recipe)
        with use_path(cpu):
            codes, squares = round_levels(x, rounding=how)
        expected, expected_squares = round_levels_reference(x, rounding=how)
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(squares, expected_squares)


@needs_native
def test_native_equals_the_reference_on_ties_and_odd_values():
    rng = np.random.default_rng(3)
    halves = (rng.integers(-20, 20, (200, 64)) + 0.5) / 127  # many equal residuals: ties break by index
    odd = rng.standard_normal((200, 64)) * 0.05
    odd[::3, 5] = np.nan
    odd[1::3, 6] = np.inf
    odd[2::3, 7] = -3.0
    odd[:, 8] = -0.0
    for x in (halves.astype(np.float32), odd.astype(np.float32)):
        codes, squares = round_levels(x)
        expected, expected_squares = round_levels_reference(x)
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(squares, expected_squares)


@pytest.mark.parametrize("recipe", ["isotropic", "clustered", "outliers"])
def test_every_row_meets_the_norm_rule_and_no_error_reaches_six_tenths(recipe):
    x = unit_rows(2000, 512, recipe=recipe)
    codes, squares = round_levels(x)
    assert squares.min() >= SQUARES_LOW and squares.max() <= SQUARES_HIGH
    np.testing.assert_array_equal(squares, rounding.row_squares(codes))
    assert codes.min() >= -127
    assert np.abs(x.astype(np.float64) * 127 - codes).max() < 0.6


def test_plain_rounding_and_truncation_break_the_norm_rule():
    x = unit_rows(4000, 512)
    _, nearest = round_levels(x, rounding="nearest")
    _, truncated = round_levels(x, rounding="truncate")
    outside = (nearest < SQUARES_LOW) | (nearest > SQUARES_HIGH)
    assert 0 < outside.mean() < 0.02
    assert ((truncated < SQUARES_LOW) | (truncated > SQUARES_HIGH)).all()


def test_the_integer_bounds_are_the_documents_norm_bounds():
    assert np.sqrt(SQUARES_LOW) / 127 >= 0.992 > np.sqrt(SQUARES_LOW - 1) / 127
    assert np.sqrt(SQUARES_HIGH) / 127 <= 1.008 < np.sqrt(SQUARES_HIGH + 1) / 127


def test_a_constant_row_is_tuned_only_where_errors_may_reach_a_level():
    constant = np.full((1, 512), 1 / np.sqrt(512), np.float32)
    _, squares = round_levels(constant)
    assert squares[0] == 512 * 36 > SQUARES_HIGH
    codes, squares = round_levels_reference(constant, least_residual=0.0)
    assert SQUARES_LOW <= squares[0] <= SQUARES_HIGH
    assert np.abs(constant * 127 - codes).max() < 1


def test_rows_and_threads_do_not_change_the_codes():
    x = unit_rows(2000, 64)
    whole, _ = round_levels(x, num_threads=4)
    np.testing.assert_array_equal(whole, np.concatenate([round_levels(x[i : i + 7])[0] for i in range(0, 2000, 7)]))
    assert round_levels(x[:0])[0].shape == (0, 64)
