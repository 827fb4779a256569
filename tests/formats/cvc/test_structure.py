"""What a header declares: which chunks hold some rows, and where a column lies in them."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.blocks import Extent, Raw
from polyvec.formats.cvc.structure import Chunk, ColumnSpec, Header

FLOAT = Raw(np.dtype("<f4"))
SPEC = ColumnSpec("v", (2,), np.dtype("<f4"), "none")


def header(*rows: int, **json: object) -> Header:
    chunks, start = [], 0
    for index, count in enumerate(rows):
        piece = Extent(start, count, 100 + 8 * start, 8 * count, FLOAT)
        chunks.append(Chunk(index, start, count, 96 + 8 * start, 100 + 8 * start, 8 * count, None, {"v": piece}, {}))
        start += count
    return Header("document", (0, 1), json, 8, 90, start, False, (SPEC,), tuple(chunks), (), 0)


@pytest.mark.parametrize(
    ("start", "stop", "wanted"),
    [(0, 6, [0, 1, 2]), (0, 1, [0]), (2, 3, [0]), (3, 4, [1]), (2, 4, [0, 1]), (5, 6, [2]), (6, 9, [])],
)
def test_the_chunks_of_some_rows_are_those_that_hold_any(start: int, stop: int, wanted: list[int]) -> None:
    assert [chunk.index for chunk in header(3, 2, 1).chunks_of(start, stop)] == wanted


def test_extents_leave_out_chunks_of_no_rows() -> None:
    assert [extent.start for extent in header(3, 0, 2).extents("v")] == [0, 3]


def test_a_column_is_found_by_name_or_those_there_are_told() -> None:
    assert header(1).spec("v") is SPEC and SPEC.dimension == 2
    assert ColumnSpec("n", (), np.dtype("<i8"), "none").dimension == 1
    with pytest.raises(KeyError, match="no column 'w'; there are v"):
        header(1).spec("w")


def test_a_mapped_file_says_so() -> None:
    assert not header(1).mapped and header(1, mmap_optimized=True).mapped
