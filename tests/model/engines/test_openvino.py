"""OpenVINO: long texts are padded to whole tiles, never past the positions a model has."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import MissingExtra
from polyvec.embedder import Embedder
from polyvec.model.engines.openvino import LONG, TILE, OpenvinoEngine, even_out
from polyvec.model.loading import load_model
from polyvec.testing.models import write_tiny_model


def test_long_texts_stay_within_the_positions(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = write_tiny_model(tmp_path / "m.weights", max_position_emb="100", max_seq_length="100")
    texts = ["the text of a vector " * 60, "a text " * 48]
    with Embedder(path, engine="numpy") as oracle, Embedder(path, engine="openvino") as embedder:
        assert (oracle.embed(texts) * embedder.embed(texts)).sum(axis=1).min() > 0.998


@pytest.mark.parametrize(
    ("tokens", "positions", "wanted"),
    [(LONG - 1, 512, LONG - 1), (LONG, 512, LONG), (LONG + 1, 512, LONG + TILE), (LONG + 1, LONG + 3, LONG + 3)],
)
def test_padding_ends_at_a_tile_or_at_the_last_position(tokens: int, positions: int, wanted: int) -> None:
    ids = np.arange(2 * tokens).reshape(2, tokens)
    even = even_out(ids, positions)
    assert even.shape == (2, wanted) and np.array_equal(even[:, :tokens], ids) and not even[:, tokens:].any()


def test_without_its_library_the_extra_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtra, match=r"polyvec\[fast-embed\]"):
        OpenvinoEngine(load_model(tiny), 1)
