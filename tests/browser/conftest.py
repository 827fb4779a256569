"""The original exporter's input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from exports import cards, unit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The original exporter's input."""
    source = tmp_path / "in"
    source.mkdir()
    np.save(source / "mtg_embeddings.npy", unit(20))
    (source / "mtg_meta.jsonl").write_text("".join(json.dumps(card) + "\n" for card in cards(20)), encoding="utf-8")
    return source
