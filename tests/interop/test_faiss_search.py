"""faiss IndexFlat finds the same rows, up to what float32 cannot tell apart."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.neighbors.truth_check import verify_truth

faiss = pytest.importorskip("faiss")
pytestmark = pytest.mark.interop


@pytest.mark.parametrize("metric", ["ip", "l2"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
def test_the_same_rows_as_index_flat(metric, dtype):
    rng = np.random.default_rng(0)
    rows, queries = ((rng.standard_normal((n, 48)) * 20).astype(dtype) for n in (20_000, 80))
    floats, asked = rows.astype(np.float32), queries.astype(np.float32)
    index = faiss.IndexFlatIP(48) if metric == "ip" else faiss.IndexFlatL2(48)
    index.add(floats)
    scores, ids = index.search(asked, 20)
    hits = pv.search(rows, queries, 20, metric)
    np.testing.assert_allclose(hits.scores, scores, rtol=1e-4, atol=1e-2)
    assert (hits.rows == ids).mean() > (
        0.99 if dtype != np.int8 else 0.8
    )  # whole numbers tie; ties are by lowest row here
    verify_truth(floats, asked, ids, metric=metric)
