"""Shadows: the compiled kernel and NumPy give the same bits, and the bounds hold."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.kernels import available_paths, use_path
from polyvec.neighbors.shadow import Frame, adopt_codes, cast_shadow, choose_frame

from .datasets import CASES

FLOATS = [n for n in CASES if "int8" not in n and n != "half_floats"]


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("dim", [1, 15, 16, 50])
@pytest.mark.parametrize("path", available_paths())
def test_every_path_gives_the_same_bits(path, dim, narrow):
    for name in FLOATS:
        rows, _ = CASES[name](np.random.default_rng(1), 60, dim, 2)
        for frame in (Frame(None, 1.0), choose_frame(rows)):
            with use_path("numpy"):
                want = cast_shadow(rows, frame, narrow=narrow)
            with use_path(path):
                got = cast_shadow(rows, frame, narrow=narrow)
            for field in ("codes", "scale", "error", "hat", "norm", "half", "along"):
                np.testing.assert_array_equal(getattr(got, field), getattr(want, field), err_msg=f"{name} {field}")


@pytest.mark.parametrize("name", FLOATS)
def test_error_and_hat_are_upper_bounds(name):
    rows, _ = CASES[name](np.random.default_rng(2), 200, 40, 2)
    wide = rows.astype(np.longdouble)
    for frame in (Frame(None, 1.0), choose_frame(rows)):
        center = 0 if frame.center is None else frame.center.astype(np.longdouble)
        shadow = cast_shadow(rows, frame, narrow=True)
        sound = np.isfinite(shadow.error) & ~np.isnan(shadow.norm)
        with np.errstate(all="ignore"):
            hat = shadow.scale.astype(np.longdouble)[:, None] * shadow.codes
            missing = np.sqrt(((wide - center - hat) ** 2).sum(axis=1))
        assert (missing[sound] <= shadow.error[sound]).all()
        assert (np.sqrt((hat**2).sum(axis=1))[sound] <= shadow.hat[sound]).all()


def test_bytes_are_their_own_shadow():
    rng = np.random.default_rng(0)
    for low, high, dtype in ((-128, 128, np.int8), (0, 256, np.uint8)):
        rows = rng.integers(low, high, (50, 1030)).astype(dtype)
        shadow = adopt_codes(rows)
        center = 0 if shadow.frame.center is None else shadow.frame.center
        np.testing.assert_array_equal(shadow.codes.astype(np.int64) + center, rows)
        np.testing.assert_allclose(shadow.norm, np.linalg.norm(rows.astype(np.float64), axis=1), rtol=1e-15)
        assert (shadow.error == 0).all()
