"""The embedder's own API: similarities by cosine, and texts embedded in one call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.embedder import Embedder, cosine_similarity, find_similar
from polyvec.testing.models import write_tiny_model


def test_similarity_is_the_cosine() -> None:
    rows = np.array([[1, 0], [0, 2], [3, 3]], np.float32)
    assert np.allclose(
        cosine_similarity(rows, rows), [[1, 0, 0.70710678], [0, 1, 0.70710678], [0.70710678, 0.70710678, 1]]
    )
    assert find_similar(rows[0], rows, top_k=2) == [(0, 1.0), (2, pytest.approx(0.70710678))]
    assert find_similar(rows[0], np.zeros((2, 2), np.float32), 5) == [(0, 0.0), (1, 0.0)]
    for query, corpus, count in ((rows, rows, 1), (rows[0], rows[0], 1), (rows[0], rows, 0)):
        with pytest.raises(InputError):
            find_similar(query, corpus, count)


def test_embed_in_one_call(tmp_path: Path) -> None:
    tiny = write_tiny_model(tmp_path / "tiny.weights")
    with Embedder(tiny, engine="numpy") as embedder:
        assert np.array_equal(pv.embed(["zip"], model=tiny, engine="numpy"), pv.embed(["zip"], model=embedder))
        with pytest.raises(InputError, match="engine"):
            pv.embed(["zip"], model=embedder, engine="numpy")


def test_equal_cosines_come_by_row_and_no_row_twice() -> None:
    rows = np.array([[2, 0], [0, 1], [1, 0], [-1, 0]], np.float32)
    assert [row for row, _ in find_similar(rows[0], rows, top_k=99)] == [0, 2, 1, 3]


def test_two_vectors_have_one_cosine() -> None:
    one = cosine_similarity(np.float32([3, 4]), np.float32([4, 3]))
    assert np.ndim(one) == 0 and one == pytest.approx(0.96)
