"""Codecs at the smallest and the largest floats: what is stored comes back within a step, or is refused by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import polyvec as pv
from polyvec import InputError
from polyvec.codecs import AffineUint8, BFloat16, Float16, ScaledInt8
from polyvec.core.blocks import Block
from polyvec.kernels import available_paths, use_path
from polyvec.reports.trials import four_bits, one_bit

SCALES = [
    1.4e-45,
    5e-45,
    1e-44,
    3e-44,
    1e-43,
    2.5e-43,
    1e-42,
    1e-41,
    1e-40,
    1e-38,
    1e-30,
    1.0,
    1e19,
    1e30,
    1e37,
    1.6e38,
]
ULP = 2.0**-149


@pytest.fixture(params=sorted({*available_paths(), "numpy"}), autouse=True)
def path(request):
    with use_path(request.param), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield request.param


def rows_of(scale, shape=(60, 16), seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, shape)
    rows[0, 0], rows[0, 1] = 1, -1
    return (rows * scale).astype(np.float32)


def back(codec, rows):
    return codec.decode(Block(0, codec.encode(rows), codec, len(rows))).astype(np.float64)


@pytest.mark.parametrize("scale", SCALES)
def test_affine_codes_are_within_a_step_of_their_values(scale):
    for seed in range(5):
        rows = rows_of(scale, seed=seed)
        codec = AffineUint8.fit([rows])
        span = float(rows.max().astype(np.float64) - rows.min())
        step = span / 255
        assert np.abs(back(codec, rows) - rows).max() <= step * 0.51 + ULP + span * 2.0**-22
        assert codec.scale <= max(step * 1.001, ULP) + ULP


@pytest.mark.parametrize("scale", SCALES)
def test_scaled_codes_are_within_a_step_of_their_values(scale):
    for seed in range(5):
        rows = rows_of(scale, seed=seed)
        largest = np.abs(rows.astype(np.float64)).max(axis=1, keepdims=True)
        assert (np.abs(back(ScaledInt8(), rows) - rows) <= largest / 127 * 0.51 + ULP).all()
        assert (np.abs(four_bits(rows).astype(np.float64) - rows) <= largest / 7 * 0.51 + ULP).all()


def test_a_constant_and_a_zero_come_back_at_any_scale():
    for scale in SCALES:
        rows = np.full((5, 4), scale, np.float32)
        assert (back(AffineUint8.fit([rows]), rows) == rows).all()
        assert np.allclose(back(ScaledInt8(), rows), rows, rtol=0.004, atol=ULP)
    zero = np.zeros((5, 4), np.float32)
    assert (back(AffineUint8.fit([zero]), zero) == 0).all() and (back(ScaledInt8(), zero) == 0).all()


def test_the_largest_floats_are_kept_or_refused_never_infinite():
    rows = rows_of(3.4028234e38)
    for codec in (ScaledInt8(),):
        assert np.isfinite(back(codec, rows)).all()
    with pytest.raises(InputError, match="span more than float32 can scale; choose an exact encoding"):
        AffineUint8.fit([rows])
    with pytest.raises(
        InputError, match=r"3.40282e\+38 in row 7, column 0 does not fit bfloat16 \(at most 3.38953e\+38\)"
    ):
        BFloat16().encode(rows, start=7)
    with pytest.raises(InputError, match="does not fit float16"):
        Float16().encode(rows)
    edge = np.array([[3.3961773e38, -3.3961773e38, np.inf, np.nan]], np.float32)
    kept = back(BFloat16(), edge)
    assert np.isfinite(kept[0, :2]).all() and kept[0, 2] == np.inf and np.isnan(kept[0, 3])
    assert np.isfinite(one_bit(rows)).all()


@pytest.mark.parametrize("rows", [10, 70000])
def test_a_file_of_bfloat16_holds_no_infinity_that_was_a_number(tmp_path, rows):
    values = np.ones((rows, 8), np.float32)
    values[rows - 2, 3] = -3.4028234e38
    with pytest.raises(InputError, match=rf"-3.40282e\+38 in row {rows - 2}, column 3 does not fit bfloat16"):
        pv.write(tmp_path / "a.cvc", values, encoding="bfloat16")
    assert not (tmp_path / "a.cvc").exists()
    values[rows - 2, 3] = -np.inf
    pv.write(tmp_path / "a.cvc", values, encoding="bfloat16")
    with pv.open(tmp_path / "a.cvc") as c:
        assert np.isinf(c.vectors[rows - 2 : rows - 1]).sum() == 1
