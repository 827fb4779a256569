"""Pooling: one vector for a text's tokens, of length one at every scale."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.model.pooling import normalize


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-20, 1.0, 1e20, 3e37])
def test_vectors_are_made_unit_at_every_scale(scale):
    rows = (np.random.default_rng(0).standard_normal((4, 9)) * scale).astype(np.float32)
    wanted = rows.astype(np.float64) / scale
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(normalize(rows), wanted, atol=1e-6)
    assert np.allclose(normalize(rows[1]), wanted[1], atol=1e-6)
    assert not normalize(np.zeros((2, 3), np.float32)).any()
