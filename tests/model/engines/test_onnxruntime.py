"""The graph that onnxruntime runs: valid by ONNX's own checker, its weights outside, its output the pooled vectors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import MissingExtra
from polyvec.model.engines.numpy import NumpyEngine
from polyvec.model.engines.onnxruntime import OnnxruntimeEngine, build_graph
from polyvec.model.loading import load_model


def test_the_built_graph_is_valid_onnx(tiny: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model = load_model(tiny)
    graph, weights = build_graph(model.architecture, model.parameters)
    parsed = onnx.load_model_from_string(graph)
    assert {i.name for i in parsed.graph.initializer if i.external_data} == set(weights)
    assert [o.name for o in parsed.graph.output] == ["pooled"]


def test_texts_of_one_length_and_of_several_give_the_oracles_vectors(tiny: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = load_model(tiny)
    engine, oracle = OnnxruntimeEngine(model, 1), NumpyEngine(model)
    ids = np.random.default_rng(0).integers(0, model.architecture.vocab_size, (3, 9))
    for lengths in ([9, 9, 9], [9, 2, 1]):
        sizes = np.array(lengths, np.int32)
        assert np.allclose(engine.pool(ids, sizes), oracle.pool(ids, sizes), atol=1e-5)


def test_without_its_library_the_extra_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"polyvec\[embed\]"):
        OnnxruntimeEngine(load_model(tiny), 1)
