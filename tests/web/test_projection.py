"""The map: deterministic, the same for batches, the outermost at the rim. (test_publish shows that PCA finds the plane.)"""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.testing import vectors
from polyvec.web import projection
from polyvec.web.projection import UNIT, project, to_points, unit_rows

ROWS = vectors(300, 9)


def test_rows_chosen_lie_as_they_were_asked_for() -> None:
    some = np.array([5, 1, 299])
    whole, part = project(ArrayColumn("v", ROWS[some])), project(ArrayColumn("v", ROWS), some)
    assert np.array_equal(whole.points, part.points) and whole.note == part.note


def test_batches_and_progress_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    once = project(ArrayColumn("v", ROWS))
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(projection, "BATCH_BYTES", 7 * 36)
    again = project(ArrayColumn("v", ROWS), tell=lambda done, total: told.append((done, total)))
    assert np.abs(once.points.astype(int) - again.points).max() <= 1
    assert told[-1] == (300, 300) and len(told) > 40


def test_rows_of_one_direction_and_no_rows_have_a_place() -> None:
    same = project(ArrayColumn("v", np.ones((4, 3), np.float32) * np.arange(1, 5, dtype=np.float32)[:, None]))
    assert len(set(map(tuple, same.points.tolist()))) == 1 and "nothing to spread out" in same.note
    assert to_points(np.zeros((0, 2), np.float32)).shape == (0, 2)
    assert project(ArrayColumn("v", ROWS[:, :1])).points.shape == (300, 2)


def test_one_scale_serves_both_axes_and_outliers_are_held_at_the_rim() -> None:
    flat = np.stack([np.linspace(-1, 1, 1000), np.linspace(-0.5, 0.5, 1000)], axis=1).astype(np.float32)
    flat[0] = [1e6, -1e6]
    points = to_points(flat)
    assert points.dtype == np.uint16 and points[0].tolist() == [UNIT, 0]
    wide, high = np.ptp(points[1:].astype(int), axis=0)
    assert wide / high == pytest.approx(2, rel=0.02)


def test_rows_are_of_length_one_or_nothing() -> None:
    rows = np.float32([[3, 4], [0, 0], [np.nan, 2], [1e-40, 0]])
    assert np.allclose(unit_rows(rows), [[0.6, 0.8], [0, 0], [0, 1], [1, 0]])
    assert rows[2, 0] != rows[2, 0], "the rows given were changed"


def test_a_projection_that_is_none_is_told() -> None:
    with pytest.raises(InputError, match="unknown projection 'umap'; there are pca, tsne"):
        project(ArrayColumn("v", ROWS), method="umap")
