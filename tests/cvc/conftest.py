"""A CVC file of vectors, and one of ten columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyvec import cvc
from polyvec.testing import vectors

ROWS = vectors(1000, 8)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    cvc.pack_cvc(ROWS, tmp_path / "a.cvc", chunk_size=300)
    return tmp_path / "a.cvc"


@pytest.fixture
def columnar(tmp_path: Path) -> Path:
    data = {f"c{number}": vectors(400, 8, seed=number) for number in range(10)}
    cvc.pack_cvc_columns(data, tmp_path / "c.cvc", chunk_size=150)
    return tmp_path / "c.cvc"
