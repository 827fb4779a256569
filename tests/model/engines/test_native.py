"""The compiled engine agrees with the oracle text by text, and says why it cannot run where it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyvec import kernels
from polyvec.model.architecture import Architecture
from polyvec.model.engines.native import NativeEngine, refuse
from polyvec.model.engines.numpy import NumpyEngine
from polyvec.model.loading import load_model
from polyvec.testing.models import tiny_metadata, write_tiny_model

MULTIPLES = {"num_attention_heads": "2", "hidden_size": "64", "embedding_dim": "64", "intermediate_size": "96"}


def need() -> None:
    reason = refuse(Architecture.from_metadata(tiny_metadata(**MULTIPLES)))
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("heads", ["1", "2"])
def test_texts_of_any_length_lie_beside_each_other(tmp_path: Path, heads: str) -> None:
    need()
    path = write_tiny_model(tmp_path / "m.weights", **{**MULTIPLES, "num_attention_heads": heads})
    model = load_model(path)
    native, oracle = NativeEngine(model, 1), NumpyEngine(model)
    rng = np.random.default_rng(0)
    for lengths in ([1], [2, 64, 1], [16, 17], [31, 32, 33, 34], [64] * 9, [3] * 30):
        sizes = np.array(lengths, np.int32)
        ids = rng.integers(0, model.architecture.vocab_size, (len(sizes), sizes.max()))
        assert np.abs(native.pool(ids, sizes) - oracle.pool(ids, sizes)).max() < 1e-4
    native.close()
    model.close()


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_a_text_of_no_tokens_is_pooled_as_the_oracle_does(tmp_path: Path, pooling: str) -> None:
    need()
    model = load_model(write_tiny_model(tmp_path / "m.weights", pooling=pooling, **MULTIPLES))
    ids, lengths = np.ones((3, 4), np.int64), np.array([0, 4, 0], np.int32)
    found, wanted = NativeEngine(model, 1).pool(ids, lengths), NumpyEngine(model).pool(ids, lengths)
    assert np.array_equal(found[[0, 2]], wanted[[0, 2]]) and np.allclose(found[1], wanted[1], atol=1e-4)


def test_a_path_below_the_widest_is_a_reason() -> None:
    with kernels.use_path("numpy"):
        assert refuse(Architecture.from_metadata(tiny_metadata(**MULTIPLES))) == "the compiled module is missing"
