"""Search on compressed rows: the same rows as a float64 brute force, on any data."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no GPU tests")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="triton is not installed: no GPU tests")

from polyvec.codecs import AffineUint8, Float16, SymmetricInt8  # noqa: E402
from polyvec.core.blocks import Extent  # noqa: E402
from polyvec.core.columns import FileColumn  # noqa: E402
from polyvec.core.sources import open_source  # noqa: E402
from polyvec.gpu import search  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "host"


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    if DEVICE == "host":
        monkeypatch.setattr(search, "TILE_ROWS", 64)
        monkeypatch.setattr(search, "STEP", 32)


def column_of(rows, codecs):
    content, extents, at = b"", [], 0
    for number, codec in enumerate(codecs):
        part = rows[len(rows) * number // len(codecs) : len(rows) * (number + 1) // len(codecs)]
        codes = codec.encode(part)["codes"].tobytes()
        extents.append(Extent(at, len(part), len(content), len(codes), codec))
        content += codes
        at += len(part)
    return FileColumn("vectors", open_source(content), extents, row_shape=rows.shape[1:], encoding="int8")


def brute_force(column, queries, k, metric):
    rows = column.to_numpy().astype(np.float64)
    if metric == "l2":
        keys = -((queries[:, None, :] - rows[None]) ** 2).sum(axis=2)
    else:
        keys = queries @ rows.T
        if metric == "cosine":
            norms = np.linalg.norm(rows, axis=1)
            keys = np.where(
                norms > 0, keys / np.where(norms > 0, norms, 1) / np.linalg.norm(queries, axis=1)[:, None], 0.0
            )
    return np.array([np.lexsort((np.arange(len(rows)), -np.round(key, 10)))[:k] for key in keys])


CASES = {
    "symmetric": [SymmetricInt8(127.0)],
    "affine": [AffineUint8(-0.9, 0.007), AffineUint8(-0.5, 0.004)],
    "float16": [Float16()],
}


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_the_rows_are_those_of_a_float64_brute_force(case, metric):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((700, 40)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[50] = 0
    column = column_of(rows, CASES[case])
    queries = rng.standard_normal((5, 40))
    found, scores = search.DeviceIndex(column, device=DEVICE).search(queries, 7, metric)
    np.testing.assert_array_equal(found, brute_force(column, queries, 7, metric))
    assert (np.diff(scores, axis=1) >= 0).all() if metric == "l2" else (np.diff(scores, axis=1) <= 0).all()


def test_duplicates_come_by_lowest_row():
    rows = np.tile(np.eye(8, dtype=np.float32), (40, 1))
    column = column_of(rows, [SymmetricInt8(127.0)])
    found, _ = search.DeviceIndex(column, device=DEVICE).search(np.eye(8)[:2], 6, "ip")
    assert found.tolist() == [[8 * i for i in range(6)], [8 * i + 1 for i in range(6)]]


def test_near_ties_and_many_queries():
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.standard_normal((1, 24)), 300, axis=0) + 1e-3 * rng.standard_normal((300, 24))
    column = column_of((rows / 10).astype(np.float32), [SymmetricInt8(127.0)])
    queries = rng.standard_normal((20, 24)) * np.logspace(-6, 6, 20)[:, None]
    found, _ = search.DeviceIndex(column, device=DEVICE).search(queries, 10, "ip")
    rows64 = column.to_numpy().astype(np.float64)
    for query, hit in zip(queries, found):
        scores = rows64 @ query
        assert scores[hit].min() >= np.sort(scores)[-10] - 1e-12 * np.abs(scores).max()


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_a_float32_base_is_rounded_on_the_device_and_still_exact(tmp_path, metric):
    import polyvec as pv

    rng = np.random.default_rng(8)
    rows = (rng.standard_normal((1, 32)) + 1e-4 * rng.standard_normal((500, 32))).astype(np.float32)
    pv.write(tmp_path / "a.fbin", rows)
    queries = rng.standard_normal((6, 32))
    with pv.open(tmp_path / "a.fbin") as c:
        found, _ = search.DeviceIndex(c.vectors, device=DEVICE).search(queries, 5, metric)
        for query, hit, best in zip(queries, found, brute_force(c.vectors, queries, 5, metric)):
            assert set(hit) == set(best), query


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_scores_are_those_of_the_cpu_bit_for_bit(case, metric):
    import polyvec as pv

    rng = np.random.default_rng(3)
    column = column_of((rng.standard_normal((300, 37)) / 8).astype(np.float32), CASES[case])
    queries = rng.standard_normal((4, 37)) * np.array([[1e-9], [1], [30], [1e9]])
    if metric == "l2" or case == "float16":
        queries /= np.abs(queries).max() / 1e4
    found, scores = search.DeviceIndex(column, device=DEVICE).search(queries, 20, metric)
    wanted = pv.search(column, queries, 20, metric)
    np.testing.assert_array_equal(found, wanted.rows)
    np.testing.assert_array_equal(scores, wanted.scores)


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-17, 1e17, 1e30])
def test_lengths_whose_bounds_float32_could_not_hold_are_left_to_the_cpu(tmp_path, scale):
    import polyvec as pv

    rows = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    index = search.DeviceIndex(column_of(rows / 8, [SymmetricInt8(127.0)]), device=DEVICE)
    with pytest.raises(pv.InputError, match=r"query 1 is shorter than 1e-15 or longer than 1e\+15"):
        index.search(np.array([rows[0], rows[1] * scale]).astype(np.float64), 3, "ip")
    far = column_of((rows * scale).astype(np.float32), [AffineUint8(-2 * scale, scale / 64)])
    with pytest.raises(pv.InputError, match="some rows are shorter than 1e-15 or longer"):
        search.DeviceIndex(far, device=DEVICE)


def test_columns_it_cannot_search_say_so(tmp_path):
    import polyvec as pv

    pv.write(tmp_path / "a.dbin", np.eye(4))
    with pv.open(tmp_path / "a.dbin") as c, pytest.raises(pv.InputError, match="int8, float16 or float32"):
        search.DeviceIndex(c.vectors, device=DEVICE)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_cpu_searches_and_says_so():
    import polyvec as pv

    rows = np.eye(4, dtype=np.float32)
    with pytest.warns(pv.DeviceWarning, match="the CPU searches instead"):
        hits = pv.search(rows, rows[:1], k=2, device="cuda")
    assert hits.rows.tolist() == [[0, 1]]
    with pytest.raises(pv.InputError, match="leave the filter"):
        pv.search(rows, rows[:1], k=2, device="cuda", where=np.ones(4, bool))


@pytest.mark.skipif(DEVICE == "host", reason="needs a GPU")
def test_search_on_the_device_equals_the_cpu(tmp_path):
    import polyvec as pv

    rows = np.random.default_rng(0).standard_normal((20000, 64)).astype(np.float32)
    pv.write(tmp_path / "a.cvc", rows, encoding="int8")
    for metric in ("ip", "cosine", "l2"):
        ours = pv.search(tmp_path / "a.cvc", rows[:20], k=10, metric=metric, device="cuda")
        theirs = pv.search(tmp_path / "a.cvc", rows[:20], k=10, metric=metric)
        np.testing.assert_array_equal(ours.rows, theirs.rows)
