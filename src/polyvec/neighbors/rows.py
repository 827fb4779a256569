"""The rows of a search: a block of them, and the dtypes in which they are scored without any loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import cast
from polyvec.neighbors.shadow import RowTerms, Shadow

Rows = NDArray[Any]

SCORED = (np.float32, np.float64, np.int8, np.uint8)  # what the kernels take


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows: their values, or how to fetch some of them, and where known their shadow and terms."""

    first: int
    count: int
    rows: Rows | None = None
    fetch: Callable[[NDArray[np.int64]], Rows] | None = None
    shadow: Shadow | None = None
    terms: RowTerms | None = None
    ids: NDArray[np.int64] | None = None  # where the rows are a selection: the id of each, ascending

    def read(self) -> Rows:
        """All rows of the block, as the kernels take them."""
        if self.rows is not None:
            return self.rows
        assert self.fetch is not None
        return scorable(self.fetch(np.arange(self.first, self.first + self.count)))


def scorable(rows: Rows) -> Rows:
    """Rows in a dtype the kernels take, without any loss: float32, float64, int8 or uint8; contiguous."""
    if rows.dtype in SCORED:
        return np.ascontiguousarray(rows)
    if rows.dtype.itemsize > 4:
        return np.ascontiguousarray(rows, np.float64)
    return np.ascontiguousarray(cast(rows, np.dtype(np.float32)))
