"""Parquet files of a few rows in groups, as other programs write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec.testing import vectors

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = vectors(30, 4)


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def lists(rows: np.ndarray, kind: Any = None) -> Any:
    return pa.array(rows.tolist(), pa.list_(kind or pa.float32()))
