"""The oracle: padding changes nothing, no text sees another, and its activations are those of the mathematics."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from polyvec.model.engines.numpy import NumpyEngine, activate
from polyvec.model.loading import load_model


def test_padding_and_company_change_nothing(tiny: Path) -> None:
    engine = NumpyEngine(load_model(tiny))
    ids = np.array([[2, 9, 11, 3, 0, 0, 0], [2, 12, 3, 44, 45, 46, 47]])
    both = engine.pool(ids, np.array([4, 7], np.int32))
    for row, length in ((0, 4), (1, 7)):
        alone = engine.pool(ids[row : row + 1, :length], np.array([length], np.int32))
        assert np.allclose(alone[0], both[row], atol=1e-6)
    ids[0, 4:] = 31
    assert np.allclose(engine.pool(ids, np.array([4, 7], np.int32)), both, atol=1e-6)


def test_the_order_of_tokens_matters(tiny: Path) -> None:
    engine = NumpyEngine(load_model(tiny))
    ids = np.array([[2, 9, 11, 3], [2, 11, 9, 3]])
    one, other = engine.pool(ids, np.array([4, 4], np.int32))
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("relu", lambda x: max(x, 0.0)),
        ("gelu", lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
        ("gelu_new", lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_activations_are_their_formulas(kind: str, formula) -> None:
    x = np.concatenate([np.linspace(-9, 9, 4001), [0.46875, 4.0, 1e-30, -1e-30]]).astype(np.float32)
    wanted = np.array([formula(float(value)) for value in x])
    assert np.allclose(activate(x, kind), wanted, rtol=3e-7, atol=1e-6)
