"""Pooling: one vector for a text's tokens, of length one at every scale."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.errors import InputError
from polyvec.model.pooling import finish, normalize, output_shape, pool, weigh_tokens


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-20, 1.0, 1e20, 3e37])
def test_vectors_are_made_unit_at_every_scale(scale):
    rows = (np.random.default_rng(0).standard_normal((4, 9)) * scale).astype(np.float32)
    wanted = rows.astype(np.float64) / scale
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(normalize(rows), wanted, atol=1e-6)
    assert np.allclose(normalize(rows[1]), wanted[1], atol=1e-6)
    assert not normalize(np.zeros((2, 3), np.float32)).any()


def test_padding_counts_for_nothing() -> None:
    hidden = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)
    hidden[1, 1:] = 1e30
    lengths = np.array([3, 1], np.int32)
    assert pool(hidden, lengths, "mean").tolist() == [[2, 3], [6, 7]]
    assert pool(hidden, lengths, "cls").tolist() == [[0, 1], [6, 7]]
    assert pool(-hidden, lengths, "max").tolist() == [[0, -1], [-6, -7]]


def test_weights_of_a_mean_sum_to_one_and_a_text_of_nothing_has_none() -> None:
    weights = weigh_tokens(np.array([4, 2, 0], np.int32), 5, "mean")
    assert np.allclose(weights.sum(axis=1), [1, 1, 0]) and (weights[1, 2:] == 0).all()


def test_a_cut_vector_is_made_unit_again() -> None:
    rows = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    cut = finish(rows, normalized=True, truncate_dim=5, output="float32")
    assert cut.shape == output_shape(3, 8, 5, "float32") and np.allclose(np.linalg.norm(cut, axis=1), 1)
    assert np.array_equal(finish(rows, normalized=False, truncate_dim=5, output="float32"), rows[:, :5])


def test_signs_are_packed_eight_to_a_byte_and_zero_is_no_bit() -> None:
    rows = np.float32([[1, -1, 0, 2, 3, -4, 5, 6, 7]])
    packed = finish(rows, normalized=False, truncate_dim=None, output="binary")
    assert packed.shape == output_shape(1, 9, None, "binary") == (1, 2)
    assert packed.tolist() == [[0b10011011, 0b10000000]]


def test_int8_is_127_levels_of_a_unit_vector() -> None:
    codes = finish(np.float32([[3, -4]]), normalized=True, truncate_dim=None, output="int8")
    assert codes.dtype == np.int8 and codes.tolist() == [[76, -102]]


@pytest.mark.parametrize(
    ("cut", "output", "says"),
    [(0, "int8", "1 to 8"), (9, "int8", "1 to 8"), (1.5, "int8", "1 to 8"), (4, "f8", "there are")],
)
def test_outputs_that_cannot_be_are_refused(cut, output: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        output_shape(2, 8, cut, output)
