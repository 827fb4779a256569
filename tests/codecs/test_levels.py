"""Levels of 1/127: which rows may be rounded, in which words they are refused, and which codes break the rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from polyvec.codecs.levels import ROUNDINGS, as_number, bad_rows, check_size, norm_message, quantize_rows
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.kernels import available_paths, use_path


@pytest.fixture(params=sorted({*available_paths(), "numpy"}), autouse=True)
def path(request):
    with use_path(request.param), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield request.param


@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-20, 1.0, 1e20, 1e37])
def test_levels_of_unit_rows_do_not_depend_on_the_scale(scale):
    signs = np.sign(np.random.default_rng(0).standard_normal((20, 64))).astype(np.float32)
    rows = (signs * np.float32(scale)).astype(np.float32)
    assert (quantize_rows(rows, normalize=True).codes == quantize_rows(signs, normalize=True).codes).all()


def unit(rows=5, dim=64):
    made = np.random.default_rng(1).standard_normal((rows, dim)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_codes_are_near_their_values_and_their_squares_are_told():
    found = quantize_rows(unit())
    error = np.abs(unit() * 127 - found.codes)
    assert found.max_error == pytest.approx(error.max(), abs=1e-4) and found.sum_error == pytest.approx(
        error.sum(), rel=1e-4
    )
    assert found.squares.tolist() == (found.codes.astype(int) ** 2).sum(axis=1).tolist()
    assert list(bad_rows(found.codes)) == []


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (lambda rows: rows * 2, {}, "row 10 is not of length one: its L2 norm is 2.*--option normalize=true"),
        (lambda rows: rows * 0, {}, "row 10 is not of length one: its L2 norm is 0; remove it"),
        (lambda rows: rows * 0, {"normalize": True}, "row 10 has no direction: its L2 norm is 0; remove it"),
        (lambda rows: rows * np.nan, {"normalize": True}, "its L2 norm is NaN"),
        (lambda rows: rows, {"rounding": "up"}, f"unknown rounding 'up'; there are {', '.join(ROUNDINGS)}"),
    ],
)
def test_rows_that_cannot_be_levels_are_refused_by_number(change, options, says):
    with pytest.raises(InputError, match=says):
        quantize_rows(change(unit()), start=10, **options)


def test_a_constant_row_needs_reach_and_truncation_keeps_to_no_bounds():
    rows = np.full((1, 512), 512**-0.5, np.float32)
    with pytest.raises(InputError, match="L2 norm out of expected range"):
        quantize_rows(rows)
    assert len(list(bad_rows(quantize_rows(rows, reach=True).codes))) == 0
    assert quantize_rows(unit(), rounding="truncate").codes.shape == (5, 64)


def test_sizes_are_told_in_the_documents_words():
    check_size(3, 4, 12)
    for actual, kind in ((11, Truncated), (13, Corrupt)):
        with pytest.raises(kind, match=rf"expected 12 bytes \(3 cards × 4 dims\), got {actual} bytes"):
            check_size(3, 4, actual)
    with pytest.raises(Corrupt, match="old float16 format"):
        check_size(3, 4, 24)


def test_bad_codes_are_told_one_by_one_with_their_place():
    codes = quantize_rows(unit(3)).codes
    codes[1, 5] = -128
    codes[2] = 0
    one, two = bad_rows(codes, start=10)
    assert one.offset == 11 * 64 + 5 and "Invalid int8 value at index 709: -128" in str(one)
    assert two.offset == 12 * 64 and str(two).startswith(norm_message(0.0, 12))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.5, "0.5"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (1e15, "1000000000000000.0")],
)
def test_numbers_read_as_javascript_writes_them(value, text):
    assert as_number(value) == text
