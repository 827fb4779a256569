"""Runs of rows: which rows a report looks at, read in the order of the file."""

from __future__ import annotations

import numpy as np

RUN_ROWS = 8192


def spread_runs(rows: int, most: int) -> list[tuple[int, int]]:
    """Ranges of rows, evenly spread, of at most `most` rows together; all rows where they are few enough."""
    if rows <= most:
        return [(at, min(at + RUN_ROWS, rows)) for at in range(0, rows, RUN_ROWS)]
    length = min(RUN_ROWS, max(1, most // 8))
    count = max(1, most // length)
    starts = np.linspace(0, rows - length, count).astype(np.int64)
    return [(int(s), int(s) + length) for s in np.unique(starts)]
