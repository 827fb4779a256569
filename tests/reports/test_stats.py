"""stats sees what is there: norms, odd rows, duplicates, shape."""

from __future__ import annotations

import json

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors import inputs as inputs_module
from polyvec.reports import stats as stats_module
from polyvec.reports.pages import stats_page
from polyvec.reports.stats import stats

RNG = np.random.default_rng(0)


def test_dimensions_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 4096)
    rows = (RNG.standard_normal((1000, 7)) * [1, 2, 3, 4, 5, 6, 0] + 1e4).astype(np.float32)
    found = stats(rows).dimensions
    wide = rows.astype(np.float64)
    np.testing.assert_allclose(found.mean, wide.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.std, wide.std(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.minimum, wide.min(axis=0))
    np.testing.assert_array_equal(found.maximum, wide.max(axis=0))
    assert found.constant == [6]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_unit_rows_are_recognised(dtype):
    rows = RNG.standard_normal((300, 24))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert stats(rows.astype(dtype)).norms.normalised
    assert not stats((rows * 1.01).astype(dtype)).norms.normalised


def test_odd_rows_are_counted():
    rows = RNG.standard_normal((50, 5)).astype(np.float32)
    rows[3] = 0
    rows[4, 1] = np.nan
    rows[[5, 6], 2] = np.inf
    found = stats(rows)
    assert (found.zero_rows, found.nan_rows, found.infinite_rows) == (1, 1, 2)
    assert np.isfinite(found.dimensions.mean).all() and sum(found.norms.counts) == 47


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.float16])
def test_duplicates_are_found_across_blocks(monkeypatch, dtype):
    monkeypatch.setattr(inputs_module, "BLOCK_BYTES", 2000)
    rows = RNG.uniform(1, 120, (400, 9)).astype(dtype)
    rows[350] = rows[2]
    rows[399] = rows[2]
    rows[100] = rows[101]
    found = stats(rows)
    assert found.duplicates == 3 and (2, 350) in found.duplicate_examples and (2, 399) in found.duplicate_examples


def test_swapped_values_are_no_duplicates():
    rows = np.array([[1, 2], [2, 1], [1, 3], [3, 1]], np.float32)
    assert stats(rows).duplicates == 0


def test_near_duplicates_are_not_duplicates():
    rows = RNG.standard_normal((200, 16)).astype(np.float32)
    rows[100:] = rows[:100] * np.float32(1.5) + np.float32(1e-4)
    found = stats(rows)
    assert found.duplicates == 0 and found.shape.near_duplicates == 1.0
    again = np.repeat(RNG.standard_normal((100, 16)).astype(np.float32), 2, axis=0)
    assert stats(again).duplicates == 100 and stats(again).shape.near_duplicates == 0.0


def test_intrinsic_dimension_and_rank_follow_the_data():
    flat = RNG.uniform(-1, 1, (4000, 3)) @ RNG.standard_normal((3, 40))
    shape = stats(flat.astype(np.float32)).shape
    assert 2 < shape.intrinsic_dimension < 4 and shape.effective_rank < 4
    round_ = stats(RNG.standard_normal((4000, 40)).astype(np.float32)).shape
    assert round_.intrinsic_dimension > 10 and round_.effective_rank > 35
    assert abs(round_.mean_cosine) < 0.01 and round_.isotropy > 0.8
    shifted = stats((RNG.standard_normal((2000, 40)) + 3).astype(np.float32)).shape
    assert shifted.mean_cosine > 0.8 and shifted.isotropy < 0.5


def test_too_many_rows_to_tell_is_said(monkeypatch):
    monkeypatch.setattr(stats_module, "HASH_ROWS", 10)
    found = stats(np.ones((20, 3), np.float32))
    assert found.duplicates is None and "not counted" in stats_page(found)


def test_small_and_hopeless_collections_do_not_fail():
    for rows in (np.zeros((5, 3)), np.full((4, 2), np.nan), np.ones((1, 4)), np.array([[1e300] * 3] * 3), np.eye(1)):
        found = stats(rows)
        json.dumps(found.to_dict(), allow_nan=False)
        assert "<svg" in stats_page(found) or found.norms is None


def test_a_file_is_looked_at_and_pages_fetch_nothing(tmp_path):
    pv.write(tmp_path / "a.fbin", RNG.standard_normal((100, 6)).astype(np.float32))
    found = pv.stats(tmp_path / "a.fbin")
    html = stats_page(found)
    assert found.rows == 100 and html.count("<svg") == 3 and "<script" not in html and "src=" not in html


def test_bad_input_is_one_clear_line():
    with pytest.raises(InputError, match="the collection is empty"):
        stats(np.empty((0, 3), np.float32))
    with pytest.raises(InputError, match="whole numbers, such as ids"):
        stats(np.ones((3, 3), np.int64))


@pytest.mark.parametrize("scale", [1e-200, 1e-50, 1e-30, 1.0, 1e30, 1e200, 1e300])
def test_norms_are_right_at_every_scale_and_small_rows_are_not_zero(scale: float):
    rows = RNG.standard_normal((50, 8))
    found = stats(rows * scale)
    lengths = np.linalg.norm(rows, axis=1) * scale
    assert found.zero_rows == 0 and sum(found.norms.counts) == 50
    np.testing.assert_allclose(
        [found.norms.minimum, found.norms.maximum, found.norms.mean],
        [lengths.min(), lengths.max(), lengths.mean()],
        1e-6,
    )
    mixed = np.concatenate([rows, np.zeros((2, 8)), rows * scale])
    assert stats(mixed).zero_rows == 2 and "<svg" in stats_page(stats(mixed))
