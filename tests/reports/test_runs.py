"""Runs of rows: all of few rows, a spread of many, each row at most once."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.reports.runs import RUN_ROWS, spread_runs


def test_large_files_are_sampled_in_spread_runs():
    runs = spread_runs(10_000_000, 100_000)
    assert runs[0][0] == 0 and runs[-1][1] == 10_000_000 and 50_000 < sum(b - a for a, b in runs) <= 100_000
    assert spread_runs(10, 100) == [(0, 10)]


@pytest.mark.parametrize("rows", [0, 1, RUN_ROWS - 1, RUN_ROWS, RUN_ROWS + 1, 3 * RUN_ROWS + 5])
def test_few_enough_rows_are_all_read_once_in_order(rows: int) -> None:
    runs = spread_runs(rows, rows)
    assert [row for start, stop in runs for row in range(start, stop)] == list(range(rows))
    assert all(0 < stop - start <= RUN_ROWS for start, stop in runs)


@pytest.mark.parametrize("most", [1, 2, 7, 8, 9, 100, 999])
def test_a_sample_has_no_row_twice_and_never_more_than_asked(most: int) -> None:
    runs = spread_runs(1000, most)
    counts = np.zeros(1000, np.int64)
    for start, stop in runs:
        assert 0 <= start < stop <= 1000
        counts[start:stop] += 1
    assert counts.max() == 1 and 0 < counts.sum() <= most
    assert runs == sorted(runs) and runs[0][0] == 0 and (most == 1 or runs[-1][1] == 1000)
