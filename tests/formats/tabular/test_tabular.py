"""Tables as collections: closed with them, or at once where they cannot be opened; the target's name in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.format import WriteOptions
from polyvec.formats.tabular import name_target, open_table
from polyvec.testing import vectors
from polyvec.writing.tables import MemoryTable

pa = pytest.importorskip("pyarrow")


class Closing(MemoryTable):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_table_is_closed_with_its_collection() -> None:
    table = Closing(pa.table({"v": [[1.0], [2.0]]}))
    collection = open_table(table)
    assert collection.vectors[:].tolist() == [[1], [2]] and table.closed == 0
    collection.close()
    assert table.closed == 1


@pytest.mark.parametrize("columns", [{"a": ["x"]}, {"v": [[1.0], [1.0, 2.0]]}], ids=["no vectors", "ragged"])
def test_a_table_that_cannot_be_opened_is_closed_at_once(columns: dict[str, Any]) -> None:
    table = Closing(pa.table(columns))
    with pytest.raises(pv.FormatError):
        open_table(table)
    assert table.closed == 1


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("f4", {}, "raw float32"),
        ("f4", {"encoding": "float16"}, "float16"),
        ("i8", {"own": {"compression": "zstd"}}, "raw int64, zstd"),
        ("f4", {"own": {"compression": "none"}}, "raw float32"),
    ],
)
def test_the_target_is_named_by_encoding_and_compression(kind: str, options: dict[str, Any], name: str) -> None:
    made = pv.Collection.from_arrays(vectors(2, 2, np.dtype(kind)))
    assert name_target(made, WriteOptions(**options)) == name
