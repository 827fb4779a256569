"""What the benchmarks of conversions share: times taken in turn, and fbin files as a peer reads and writes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def best(works: dict[str, Callable[[], object]], rounds: int = 3) -> dict[str, float]:
    """The best time of each, taken in turn, so that a busy moment hits all."""
    times = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            times[name] = min(times[name], time.perf_counter() - started)
    return times


def read_fbin(path: Path) -> np.ndarray:
    """All rows of an fbin file."""
    n, d = np.fromfile(path, "<u4", 2)
    return np.fromfile(path, "<f4", offset=8).reshape(n, d)


def write_fbin(path: Path, rows: np.ndarray) -> None:
    """Rows as an fbin file."""
    with path.open("wb") as out:
        out.write(np.array(rows.shape, "<u4").tobytes())
        rows.tofile(out)
