"""Codes and values: the document's formulas."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.browser import (
    dequantize,
    quantize,
    validate_l2_norm,
)

sys.path.insert(0, str(Path(__file__).parent))
from exports import unit


def test_quantize_and_dequantize_are_the_documents_formulas():
    rows = unit(50)
    codes = quantize(rows)
    assert codes.dtype == np.int8 and np.abs(dequantize(codes) - rows).max() < 1 / 127
    every = np.arange(-127, 128, dtype=np.int8)
    np.testing.assert_array_equal(dequantize(every), every.astype(np.float32) / np.float32(127))
    assert (dequantize(every) != every * (np.float32(1) / np.float32(127))).sum() == 16
    with pytest.raises(pv.InputError, match=r"L2 norm out of expected range: 0.85"):
        validate_l2_norm(np.array([0.85]))


def test_one_row_is_quantized_like_many():
    row = unit(1)[0]
    assert quantize(row).shape == (1, 512) and np.array_equal(quantize(row), quantize(row[None]))


@pytest.mark.parametrize(("norm", "fine"), [(0.992, True), (1.008, True), (0.9919, False), (1.0081, False)])
def test_the_bounds_of_a_norm_belong_to_it(norm: float, fine: bool):
    if fine:
        validate_l2_norm(np.array([norm, 0.0]))
        return
    with pytest.raises(pv.InputError, match="L2 norm out of expected range"):
        validate_l2_norm(np.array([norm, 0.0]))


def test_a_norm_that_is_no_number_is_out_of_range():
    with pytest.raises(pv.InputError, match="out of expected range: NaN"):
        validate_l2_norm(np.array([np.nan]))
