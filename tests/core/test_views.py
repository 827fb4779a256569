"""Columns made of columns: joined, cut, chosen; extents and segments are those of the rows, or none at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.codecs import Float16
from polyvec.core.blocks import Extent, Raw
from polyvec.core.columns import ArrayColumn, FileColumn
from polyvec.core.views import ConcatColumn, RangeColumn, TakeColumn
from polyvec.testing import MemorySource, vectors

ROWS = vectors(12, 2)
FLOAT = Raw(np.dtype("<f4"))


def stored(start: int, stop: int) -> FileColumn:
    data = ROWS[start:stop].tobytes()
    extents = [Extent(0, stop - start, 0, len(data), FLOAT)] if stop > start else []
    source = MemorySource(data, f"{start}.fbin")
    return FileColumn("v", source, extents, row_shape=(2,), encoding="raw", dtype=np.dtype("<f4"))


JOINED = ConcatColumn("v", [stored(0, 5), stored(5, 5), stored(5, 12)])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 5))
def test_blocks_and_extents_of_joined_columns_count_in_the_whole(start: int, stop: int, rows: int) -> None:
    found = np.concatenate(
        [np.empty((0, 2), np.float32), *(b.decode() for b in JOINED.blocks(rows, start=start, stop=stop))]
    )
    assert found.tobytes() == ROWS[start : max(start, stop)].tobytes()
    at = start
    for extent in JOINED.extents(start, stop):
        assert extent.start == at
        at += extent.rows
    assert at == max(start, stop)


def test_joined_columns_are_of_one_kind_or_mixed() -> None:
    half = ArrayColumn("v", ROWS, encoding="float16")
    assert JOINED.encoding == "raw" and JOINED.dtype == np.float32
    assert ConcatColumn("v", [stored(0, 5), half]).encoding == "mixed"


def test_half_of_the_extents_are_none_at_all() -> None:
    mixed = ConcatColumn("v", [stored(0, 5), ArrayColumn("v", ROWS[5:])])
    assert list(mixed.extents()) == [] and mixed.segments(FLOAT) is None
    assert len(list(mixed.extents(0, 5))) == 1


def test_segments_of_a_range_are_the_bytes_of_its_rows() -> None:
    part = RangeColumn(stored(0, 12), 3, 7)
    [segment] = part.segments(FLOAT)
    assert segment.source.read_at(segment.offset, segment.size) == ROWS[3:7].tobytes()
    assert part.segments(Float16()) is None and RangeColumn(ArrayColumn("v", ROWS), 3, 7).segments(FLOAT) is None


def test_a_range_is_cut_as_a_slice_is() -> None:
    for start, stop in ((-4, None), (9, 99), (5, 2), (40, 50)):
        part = RangeColumn(JOINED, start, stop)
        assert part.to_numpy().tobytes() == ROWS[start:stop].tobytes()
        assert all(extent.start + extent.rows <= part.rows for extent in part.extents())


def test_chosen_rows_come_in_the_order_asked_for() -> None:
    for rows in ([3, 0, -1, 3], range(10, 0, -3), np.arange(12) % 2 == 0, []):
        part = TakeColumn(JOINED, rows)
        wanted = ROWS[list(rows) if isinstance(rows, range) else np.array(rows, bool if len(rows) == 12 else int)]
        assert part.to_numpy().tobytes() == wanted.tobytes() and part.shape == wanted.shape
    with pytest.raises(IndexError, match="flat list"):
        TakeColumn(JOINED, [[1, 2]])
    with pytest.raises(IndexError, match="rows of column 'v' are 0 to 11, and 12 was asked for"):
        TakeColumn(JOINED, [12])
