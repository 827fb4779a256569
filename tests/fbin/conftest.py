"""A file of the FBIN document, and three shards."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec import fbin


@pytest.fixture
def data():
    return np.random.default_rng(7).standard_normal((100, 8)).astype(np.float32)


@pytest.fixture
def path(tmp_path, data):
    fbin.write_fbin(tmp_path / "v.fbin", data)
    return tmp_path / "v.fbin"


@pytest.fixture
def shards(tmp_path, data):
    paths = []
    for number in range(3):
        path = tmp_path / f"shard_{number}.fbin"
        fbin.write_fbin(path, data[number * 30 : number * 30 + 30])
        paths.append(path)
    return paths
