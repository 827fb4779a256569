"""write: whatever is given is closed again, but a collection that is the caller's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.testing import vectors

ROWS = vectors(5, 3)


def test_a_collection_stays_open_also_where_the_write_fails(tmp_path: Path) -> None:
    closed: list[int] = []
    collection = Collection({"v": ArrayColumn("v", ROWS)}, close=lambda: closed.append(1))
    pv.write(tmp_path / "a.npy", collection, durable=False)
    with pytest.raises(pv.InputError):
        pv.write(tmp_path / "a.unknown", collection)
    assert closed == []
    collection.close()
    assert closed == [1]


def test_named_arrays_are_columns_and_the_first_is_the_main_one(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.npz", {"x": ROWS, "y": np.arange(5.0)}, durable=False)
    with pv.open(tmp_path / "a.npz") as back:
        assert back.main == "x" and back["y"][:].tolist() == [0, 1, 2, 3, 4]
