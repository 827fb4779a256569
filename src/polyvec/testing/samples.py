"""Samples: what a format's suite writes and reads, and rows to fill them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn


@dataclass(frozen=True, slots=True)
class Sample:
    """A collection to write and how. ``suffix`` defaults to the format's first.

    ``tolerance`` is the largest absolute error a lossy encoding may make (0: bit for bit), or one a column.
    ``expected`` is what reads back where that is another collection than the one written (another dtype, say).
    """

    name: str
    collection: Collection
    suffix: str | None = None
    format: str | None = None  # where the suffix does not tell it
    encoding: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float | Mapping[str, float] = 0.0
    expected: Collection | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)  # options to open it with

    def allowed_error(self, column: str) -> float:
        """The largest absolute error of a column."""
        return self.tolerance if isinstance(self.tolerance, (int, float)) else self.tolerance.get(column, 0.0)


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file to read, and what it holds: for formats that are only read. ``suffix`` defaults to the format's first.

    The file is called ``sample`` and the suffix; ``beside`` are the other files of its folder, by name. ``tolerance`` is
    the largest absolute error against ``expected`` (0: bit for bit), or one a column.
    """

    name: str
    data: bytes
    suffix: str | None = None
    format: str | None = None  # where the suffix does not tell it
    expected: Collection | None = None
    tolerance: float | Mapping[str, float] = 0.0
    reading: Mapping[str, Any] = field(default_factory=dict)  # options to open it with
    beside: Mapping[str, bytes] = field(default_factory=dict)

    def allowed_error(self, column: str) -> float:
        """The largest absolute error of a column."""
        return self.tolerance if isinstance(self.tolerance, (int, float)) else self.tolerance.get(column, 0.0)


def with_dtype(collection: Collection, dtype: np.dtype[Any]) -> Collection:
    """The same collection with a main column of another dtype."""
    with np.errstate(invalid="ignore"):
        main = ArrayColumn(collection.main, collection.vectors.to_numpy().astype(dtype))
    return collection.with_parts(columns={**collection.columns, collection.main: main})


def made_parts(collection: Collection) -> dict[str, Any]:
    """Words, records, ids and metadata for the rows of a collection, its own where it has them."""
    rows = range(collection.rows)
    made = Collection.from_arrays(
        np.zeros((len(rows), 1), np.float32),
        vocab=[f"word{row}" for row in rows],
        records=[{"name": f"näme {row}", "number": row} for row in rows],
        ids=[3 * row + 7 for row in rows],
    )
    return {
        "vocab": collection.vocab or made.vocab,
        "records": collection.records or made.records,
        "ids": collection.ids or made.ids,
        "metadata": collection.metadata or {"model": "m", "language": "ü"},
    }


def vectors(rows: int, dim: int, dtype: Any = np.float32, *, seed: int = 0) -> Array:
    """Rows that are the same on every run: normal floats, or integers over their whole range."""
    generator = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return generator.integers(info.min, info.max, (rows, dim), kind, endpoint=True)
    return generator.standard_normal((rows, dim)).astype(kind)
