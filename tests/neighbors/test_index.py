"""An index gives what a search without it gives, and refuses rows it was not made of."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import Corrupt, InputError
from polyvec.neighbors.index import Index, sidecar_path
from polyvec.neighbors.metric import NAMES
from polyvec.neighbors.search import search

from .datasets import CASES
from .test_scan import brute_force


@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("name", CASES)
def test_an_index_is_exact(name, metric):
    rows, queries = CASES[name](np.random.default_rng(4), 500, 40, 70)
    index = Index.build(rows)
    for some in (queries[:1], queries[:4], queries):
        ids, scores = brute_force(rows, some, 6, metric)
        hits = index.search(some, 6, metric)
        np.testing.assert_array_equal(hits.rows, ids)
        np.testing.assert_array_equal(hits.scores, scores)


@pytest.fixture
def base(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "base.fbin"
    pv.write(path, rng.standard_normal((300, 24)).astype(np.float32))
    return path


def test_a_sidecar_serves_a_file(base):
    index = Index.build(base)
    index.save(sidecar_path(base))
    again = Index.open(sidecar_path(base), base)
    queries = np.random.default_rng(1).standard_normal((5, 24)).astype(np.float32)
    for metric in NAMES:
        want = search(base, queries, 7, metric)
        for use in (index, again):
            hits = use.search(queries, 7, metric)
            np.testing.assert_array_equal(hits.rows, want.rows)
            np.testing.assert_array_equal(hits.scores, want.scores)


def test_a_touched_file_is_hashed_again_and_accepted(base):
    Index.build(base).save(sidecar_path(base))
    base.write_bytes(base.read_bytes())
    assert Index.open(sidecar_path(base), base).rows == 300


def test_the_sidecar_of_another_file_is_refused(base, tmp_path):
    Index.build(base).save(sidecar_path(base))
    with pytest.raises(InputError, match="300 x 24 rows and the base has 10 x 24"):
        Index.open(sidecar_path(base), np.zeros((10, 24), np.float32))
    rows = pv.open(base).vectors.to_numpy()
    rows[150] += 1
    rows[0] *= 1  # the looked-at rows stay: only the hash can tell
    other = tmp_path / "other.fbin"
    pv.write(other, rows)
    with pytest.raises(InputError, match=r"of another file: the rows' hash differs|of other rows"):
        Index.open(sidecar_path(base), other)
    with pytest.raises(InputError, match="of other rows: row 0 differs"):
        search(rows + 1, rows[:1], 1, index=Index.build(base))


def test_every_truncation_and_many_flips_are_refused_or_harmless(base, tmp_path):
    Index.build(base).save(sidecar_path(base))
    data = sidecar_path(base).read_bytes()
    bad = tmp_path / "bad.pvindex"
    for size in [*range(0, 700, 7), len(data) // 2, len(data) - 65]:
        bad.write_bytes(data[:size])
        with pytest.raises((Corrupt, InputError)):
            Index.open(bad, base)
    rng = np.random.default_rng(0)
    for at in rng.integers(0, 600, 60):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        bad.write_bytes(flipped)
        try:
            Index.open(bad, base)
        except (Corrupt, InputError):
            pass


def test_an_index_of_nothing_is_refused():
    with pytest.raises(InputError, match="the base is empty"):
        Index.build(np.empty((0, 3), np.float32))
    with pytest.raises(InputError, match="whole numbers, such as ids"):
        Index.build(np.ones((3, 3), np.int32))
