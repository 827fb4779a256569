"""Stopped writers: killed at the call that was meant, and columns that stop or drip."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import Cancelled
from polyvec.core.journal import TEMP_SUFFIX
from polyvec.testing import vectors
from polyvec.testing.atomicity import (
    DrippingColumn,
    StoppedColumn,
    assert_recognisable,
    contents,
    count_calls,
    killed_at,
    leftovers,
)

ROWS = vectors(10, 2)


def test_work_is_killed_in_the_call_that_was_meant(tmp_path: Path) -> None:
    def work() -> None:
        for name in "abc":
            os.rename(tmp_path / name, tmp_path / name.upper())  # noqa: PTH104

    for name in "abc":
        (tmp_path / name).touch()
    assert killed_at("rename", 2, work) and sorted(contents(tmp_path)) == ["A", "b", "c"]
    assert not killed_at("rename", 9, lambda: None)
    assert count_calls("getpid", lambda: [os.getpid() for _ in range(3)]) == 3


def test_temporary_files_say_whose_they_are(tmp_path: Path) -> None:
    (tmp_path / f".out.npy.01234567{TEMP_SUFFIX}").touch()
    (tmp_path / "other").touch()
    [left] = leftovers(tmp_path)
    assert_recognisable(left, {"out.npy"})
    for names, path in (({"x"}, left), ({"out.npy"}, tmp_path / f"out{TEMP_SUFFIX}")):
        with pytest.raises(AssertionError):
            assert_recognisable(path, names)


def test_a_column_stops_half_way_and_another_drips() -> None:
    seen: list[int] = []
    with pytest.raises(Cancelled):
        for block in StoppedColumn(ArrayColumn("v", ROWS)).blocks():
            seen.append(block.start)
    assert seen == [0, 1, 2, 3, 4]
    dripping = DrippingColumn(ArrayColumn("v", ROWS), 3)
    assert [block.rows for block in dripping.blocks()] == [3, 3, 3, 1] and np.array_equal(dripping.to_numpy(), ROWS)
