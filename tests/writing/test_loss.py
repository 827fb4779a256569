"""Loss: right at every scale and for every dtype; exact only where it is."""

from __future__ import annotations

from math import inf

import ml_dtypes
import numpy as np
import pytest

from polyvec.core.columns import ArrayColumn
from polyvec.testing import vectors
from polyvec.writing.loss import choose_sample, compare

ROWS = vectors(20, 8, np.float64)


@pytest.mark.parametrize("exponent", [-1060, -900, -540, -200, 0, 200, 500, 900, 1020])
def test_the_worst_cosine_does_not_depend_on_the_scale(exponent: int) -> None:
    small = np.random.default_rng(1).integers(-8, 8, ROWS.shape).astype(np.float64) + 0.5
    other = small.copy()
    other[3] = small[4]
    plain = compare(small, other)
    loss = compare(np.ldexp(small, exponent), np.ldexp(other, exponent))
    assert loss.min_cosine == pytest.approx(plain.min_cosine, rel=1e-12) and plain.min_cosine < 0.9
    assert loss.max_error == np.ldexp(plain.max_error, exponent)
    assert loss.mean_error == pytest.approx(np.ldexp(plain.mean_error, exponent), rel=1e-9)


def test_a_row_that_became_zero_has_cosine_zero() -> None:
    after = ROWS.copy()
    after[2] = 0
    assert compare(ROWS, after).min_cosine == 0.0
    tiny = (ROWS * 1e-300).astype(np.float32)
    assert compare(ROWS * 1e-300, tiny).min_cosine == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_became_none_is_an_infinite_error(bad: float) -> None:
    after = ROWS.copy()
    after[7, 1] = bad
    loss = compare(ROWS, after)
    assert not loss.exact and loss.max_error == inf and loss.mean_error == inf and loss.min_cosine == 0.0


def test_values_that_were_none_before_do_not_hide_the_rest() -> None:
    before, after = ROWS.copy(), ROWS.copy()
    before[0, 0] = after[0, 0] = np.nan
    before[1, 0] = after[1, 0] = np.inf
    assert compare(before, after).exact
    after[0, 1:] = -after[0, 1:]
    loss = compare(before, after)
    assert loss.min_cosine == pytest.approx(-1) and 0 < loss.max_error < inf


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_beyond_floats_are_compared_as_integers(dtype: type) -> None:
    before = np.array([[2**53, 2**60, 5]], dtype)
    after = before + np.array([[1, 1, 0]], dtype)
    loss = compare(before, after)
    assert not loss.exact and loss.max_error == 1.0
    assert not compare(after, after.astype(np.float64)).exact
    assert compare(before, before.astype(np.float64)).exact
    assert compare(before, before.astype(np.int64)).exact and compare(before.astype(np.uint64), before).exact


def test_the_ends_of_the_integers_are_told_apart() -> None:
    low, high = np.array([[-(2**63)]]), np.array([[2**63 - 1]])
    assert compare(low, high).max_error == float(2**64 - 1)
    assert not compare(high, high.astype(np.float64)).exact
    assert not compare(np.array([[-1]]), np.array([[2**64 - 1]], np.uint64)).exact


def test_bits_decide_in_one_dtype() -> None:
    one = np.array([[0x7FC00000, 0x00000000]], np.uint32).view(np.float32)
    payload = np.array([[0x7FC00001, 0x00000000]], np.uint32).view(np.float32)
    signed = np.array([[0x7FC00000, 0x80000000]], np.uint32).view(np.float32)
    assert compare(one, one.copy()).exact
    for other in (payload, signed):
        loss = compare(one, other)
        assert not loss.exact and loss.max_error == 0.0
    assert compare(one, one.astype(np.float64)).exact, "across dtypes NaN is NaN"


def test_odd_dtypes_are_compared_and_not_crashed_on() -> None:
    brain = ROWS.astype(ml_dtypes.bfloat16)
    assert compare(brain, brain.astype(np.float32)).exact and not compare(ROWS, brain).exact
    flags = np.array([[True, False]])
    assert compare(flags, flags.astype(np.uint8)).exact and not compare(flags, ~flags).exact
    pairs = np.zeros((2, 1), [("a", "f4"), ("b", "f8")])
    assert compare(pairs, pairs.copy()).exact
    assert not compare(pairs, np.ones((2, 1))).exact
    assert compare(ROWS.astype(">f8"), ROWS).exact


@pytest.mark.parametrize("count", [1, 7, 1024, 1025, 3000, 50_000])
def test_the_sample_has_both_ends_and_lies_all_over_the_rows(count: int) -> None:
    column = ArrayColumn("vectors", np.arange(count, dtype=np.float32)[:, None])
    rows = choose_sample((column, column))
    assert rows[0] == 0 and rows[-1] == count - 1 and (np.diff(rows) > 0).all()
    assert min(count, 1000) <= len(rows) <= 1026
    assert np.diff(rows).max(initial=0) <= max(1, count / 100), "no hundredth of the rows is left unseen"
