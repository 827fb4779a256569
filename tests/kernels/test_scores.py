"""Scores down to the last bit: sums in 16 lanes, and numbers whose exponent has no bounds where float64 gives out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.kernels import scores
from polyvec.kernels.scores import COSINE, IP, L2, Wide, pad_lanes, query_norms, safe_queries, score_rows, sum_lanes

NUMBERS = st.floats(-(2.0**60), 2.0**60, allow_nan=False, width=32)


def exact(wide: Wide) -> list[Fraction]:
    return [Fraction(float(p)) * Fraction(2) ** int(e) if p else Fraction(0) for p, e in zip(wide.part, wide.power)]


def test_lanes_are_added_as_a_tree_of_halves() -> None:
    lanes = np.random.default_rng(0).standard_normal(16) * 10.0 ** np.arange(-8, 8)
    half = [lanes[i] + lanes[i + 8] for i in range(8)]
    quarter = [half[i] + half[i + 4] for i in range(4)]
    assert sum_lanes(lanes) == (quarter[0] + quarter[2]) + (quarter[1] + quarter[3])


def test_padding_is_zeros_up_to_a_multiple_of_sixteen() -> None:
    assert pad_lanes(np.ones((2, 17))).shape == (2, 32) and pad_lanes(np.ones((2, 17))).sum() == 34
    whole = np.ones((2, 16))
    assert pad_lanes(whole) is whole


@settings(max_examples=60, deadline=None)
@given(NUMBERS, NUMBERS, st.integers(-5000, 5000))
def test_wide_numbers_are_rounded_as_float64_is(a: float, b: float, shift: int) -> None:
    one, two = (Wide.of(np.array([v]), np.int64(shift)) for v in (a, b))
    scale = Fraction(2) ** shift
    assert exact(one + two) == [Fraction(a + b) * scale]
    assert exact(one * two) == [Fraction(a * b) * scale * scale] or abs(a * b) < 1e-290
    if b:
        assert exact(one / two) == [Fraction(a / b)] or not 1e-290 < abs(a / b) < 1e290


@settings(max_examples=40, deadline=None)
@given(st.floats(2.0**-40, 2.0**40), st.integers(-2000, 2000))
def test_a_wide_root_is_the_root(a: float, shift: int) -> None:
    root = Wide.of(np.array([a]), np.int64(2 * shift)).sqrt()
    assert exact(root) == [Fraction(float(np.sqrt(a))) * Fraction(2) ** shift]


def test_what_float64_cannot_hold_reads_zero_or_infinity_and_is_ranked_by_its_tie() -> None:
    with np.errstate(over="ignore"):
        values, ties = Wide(np.array([0.5, 0.75, 0.5, 0.75, 0.5]), np.array([-1200, -1200, 1100, 1100, 3])).read()
    assert values.tolist() == [0, 0, np.inf, np.inf, 4.0]
    assert ties[0] < ties[1] and ties[2] < ties[3] and ties[4] == 0


@pytest.mark.parametrize("metric", [IP, COSINE, L2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_ordinary_scores_are_those_of_the_mathematics(metric: int, dtype) -> None:
    rng = np.random.default_rng(2)
    rows = (rng.standard_normal((9, 21)) * 20).astype(dtype)
    queries = rng.standard_normal((3, 21))
    keys, ties = score_rows(rows, queries, query_norms(queries), metric)
    wide = rows.astype(np.float64)
    wanted = {
        IP: queries @ wide.T,
        COSINE: queries @ wide.T / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(wide, axis=1),
        L2: -((queries[:, None] - wide) ** 2).sum(axis=2),
    }[metric]
    assert np.allclose(keys, wanted, rtol=1e-12) and not ties.any()


def test_cosines_do_not_depend_on_the_scale_of_rows_or_queries() -> None:
    rng = np.random.default_rng(3)
    rows, queries = rng.standard_normal((5, 7)), rng.standard_normal((2, 7))
    plain = score_rows(rows, queries, query_norms(queries), COSINE)[0]
    for power in (-600, 600):
        big = queries * 2.0**power
        assert np.allclose(score_rows(rows * 2.0**-power, big, query_norms(big), COSINE)[0], plain, rtol=1e-14)


def test_rows_that_are_no_numbers_have_no_score_and_zero_rows_a_cosine_of_zero() -> None:
    rows = np.array([[np.nan, 1], [np.inf, 1], [0, 0], [1, 0]])
    queries = np.array([[1.0, 0.0]])
    for metric in (IP, L2):
        assert np.isnan(score_rows(rows, queries, query_norms(queries), metric)[0][0, :2]).all()
    cosines = score_rows(rows, queries, query_norms(queries), COSINE)[0][0]
    assert np.isnan(cosines[:2]).all() and cosines[2:].tolist() == [0, 1]


def test_queries_of_ordinary_size_are_known() -> None:
    queries = np.array([[1.0, 0.0], [2.0**-441, 1], [2.0**441, 1], [-(2.0**440), 2.0**-440]])
    assert safe_queries(queries).tolist() == [True, False, False, True]


def test_the_mode_of_floats_is_put_back() -> None:
    module = scores.compiled()
    if module is None:
        pytest.skip("NumPy does the work")
    before = module.float_mode()
    with pytest.raises(KeyError), scores.plain_floats():
        raise KeyError
    assert module.float_mode() == before


@pytest.mark.parametrize("dim", [1, 15, 16, 17, 300, 1024])
@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_are_summed_in_the_order_of_many(rows, dim, monkeypatch):
    generator = np.random.default_rng(dim)
    values = generator.standard_normal((rows, dim)) * np.exp(5 * generator.standard_normal((rows, dim)))
    few = scores.sum_squares(values)
    monkeypatch.setattr("polyvec.kernels.scores.FEW_VALUES", 0)
    assert few.tobytes() == scores.sum_squares(values).tobytes()
