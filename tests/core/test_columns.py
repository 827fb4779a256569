"""Columns: every way to ask for rows gives the rows that NumPy gives, from files, arrays and views."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.blocks import Array, Block, Codec, Extent, PartTypes, Raw
from polyvec.core.collection import Collection, concat
from polyvec.core.columns import ArrayColumn, Column, FileColumn, ReaderColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.files import Source
from polyvec.core.views import ConcatColumn, RangeColumn, TakeColumn
from polyvec.kernels import crc32
from polyvec.testing import vectors

ROWS = vectors(23, 3)
FLOAT = Raw(np.dtype("<f4"))


@dataclass(frozen=True, slots=True)
class Whole(Codec):
    """A codec whose rows cannot be sliced: the bytes of a chunk, reversed."""

    name: ClassVar[str] = "whole"

    def parts(self, row_shape: tuple[int, ...]) -> PartTypes:
        return {"codes": (np.dtype(np.uint8), ())}

    def row_bytes(self, row_shape: tuple[int, ...]) -> int | None:
        return None

    def encode(self, rows: Array) -> dict[str, Array]:
        return {"codes": np.ascontiguousarray(rows).reshape(-1).view(np.uint8)[::-1].copy()}

    def decode(self, block: Block, out: Array | None = None) -> Array:
        rows = block.parts["codes"][::-1].copy().view(np.float32).reshape(block.rows, -1)
        if out is None:
            return rows
        out[...] = rows
        return out


def packed(cuts: Iterable[int], codec: Codec = FLOAT, crc: bool = False) -> FileColumn:
    """ROWS in a file, in extents that end at ``cuts``, each behind a few bytes of something else."""
    data, extents, start = b"", [], 0
    for stop in (*cuts, len(ROWS)):
        codes = codec.encode(ROWS[start:stop])["codes"].tobytes()
        data += b"junk!"
        extents.append(Extent(start, stop - start, len(data), len(codes), codec, crc32(codes) if crc else None))
        data += codes
        start = stop
    return FileColumn("v", Source(None, data=data), extents, row_shape=(3,), encoding=codec.name)


def strided() -> FileColumn:
    """ROWS with four bytes before each row, as .fvecs has them."""
    data = b"".join(b"dims" + row.tobytes() for row in ROWS)
    extent = Extent(0, 23, 4, 23 * 16 - 4, FLOAT, stride=16)
    return FileColumn("v", Source(None, data=data), [extent], row_shape=(3,), encoding="raw")


def columns() -> dict[str, Column]:
    big = np.concatenate([vectors(4, 3, seed=9), ROWS, vectors(5, 3, seed=8)])
    return {
        "one extent": packed([]),
        "many extents": packed([1, 8, 20]),
        "with checksums": packed([1, 8, 20], crc=True),
        "strided": strided(),
        "not sliceable": packed([7, 15], Whole()),
        "array": ArrayColumn("v", ROWS),
        "reader": ReaderColumn("v", ROWS.shape, ROWS.dtype, lambda a, b: ROWS[a:b]),
        "concat": ConcatColumn("v", [ArrayColumn("v", ROWS[:9]), packed([9]).__class__("v", Source(
            None, data=ROWS[9:].tobytes()), [Extent(0, 14, 0, 14 * 12, FLOAT)], row_shape=(3,), encoding="raw")]),
        "range": RangeColumn(ArrayColumn("v", big), 4, 27),
        "range of extents": RangeColumn(
            ConcatColumn("v", [ArrayColumn("v", big[:4]), packed([1, 8, 20], crc=True)]), 4, 27),
        "take": TakeColumn(ArrayColumn("v", big), range(4, 27)),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(columns()))
def test_every_way_to_ask_gives_what_numpy_gives(name: str) -> None:
    column = columns()[name]
    assert column.shape == ROWS.shape and column.dtype == ROWS.dtype and len(column) == 23
    assert np.array_equal(column.to_numpy(), ROWS)
    assert np.array_equal(np.asarray(column), ROWS)
    assert np.array_equal(np.asarray(column, np.float64), ROWS.astype(np.float64))
    out = np.empty_like(ROWS)
    assert column.to_numpy(out) is out and np.array_equal(out, ROWS)
    spread = np.empty((23, 6), np.float32)[:, ::2]
    assert np.array_equal(column.to_numpy(spread), ROWS)
    for key in (slice(2, 19), slice(None, None, 4), slice(20, 3, -3), slice(5, 2), slice(-4, None), 0, 22, -1, -23,
                np.array([3, 3, 22, 0]), np.array([-1, 0]), [], np.arange(23) % 3 == 0, np.int64(4)):  # fmt: skip
        expected = ROWS[np.asarray(key, np.int64)] if isinstance(key, list) else ROWS[key]
        assert np.array_equal(column[key], expected), key
    assert [len(batch) for batch in column.batches(10)] == [10, 10, 3]
    assert np.array_equal(np.stack(list(column)), ROWS)
    for bad in (23, -24, np.array([23]), np.array([-24]), np.ones(5, bool)):
        with pytest.raises(IndexError):
            column[bad]
    with pytest.raises(ValueError, match="out must be"):
        column.to_numpy(np.empty((22, 3), np.float32))


@given(
    name=st.sampled_from(list(columns())),
    start=st.integers(0, 23),
    stop=st.integers(0, 23),
    rows=st.integers(1, 30),
    reuse=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_blocks_are_in_order_and_hold_the_rows_asked_for(
    name: str, start: int, stop: int, rows: int, reuse: bool
) -> None:
    at = start
    for block in columns()[name].blocks(rows, start=start, stop=stop, reuse=reuse):
        assert block.start == at and 1 <= block.rows <= rows
        assert np.array_equal(block.decode(), ROWS[at : at + block.rows])
        at += block.rows
    assert at == max(start, stop)


@given(cuts=st.lists(st.integers(0, 23), max_size=4), start=st.integers(0, 23), stop=st.integers(0, 23))
@settings(max_examples=100, deadline=None)
def test_extents_say_where_the_rows_lie(cuts: list[int], start: int, stop: int) -> None:
    column = packed(sorted(cuts))
    found = [
        column.source.view(extent.offset, extent.size).view("<f4").reshape(-1, 3)
        for extent in column.extents(start, stop)
    ]
    expected = ROWS[start:stop]
    assert np.array_equal(np.concatenate([np.empty((0, 3), np.float32), *found]), expected)
    extents = list(column.extents(start, stop))
    assert pickle.loads(pickle.dumps(extents)) == extents


def test_a_flipped_bit_fails_its_extents_checksum_and_no_other() -> None:
    column = packed([8, 16], crc=True)
    extents = list(column.extents())
    data = bytearray(column.source.read_at(0, column.source.size))
    data[extents[1].offset + 3] ^= 1
    bad = FileColumn("v", Source(None, data=bytes(data), name="x.v"), extents, row_shape=(3,), encoding="raw")
    for read in (bad.to_numpy, lambda: bad[8:16], lambda: list(bad.blocks(3)), lambda: bad.take(np.arange(23))):
        with pytest.raises(Corrupt, match=r"x\.v: rows 8 to 15 fail their checksum.*at byte \d+"):
            read()
    assert np.array_equal(bad[:8], ROWS[:8]) and np.array_equal(bad[16:], ROWS[16:])
    unchecked = FileColumn("v", bad.source, extents, row_shape=(3,), encoding="raw", check=False)
    assert unchecked.to_numpy().shape == ROWS.shape


def test_rows_that_are_not_there_are_truncated() -> None:
    column = FileColumn(
        "v", Source(None, data=bytes(100)), [Extent(0, 9, 0, 108, FLOAT)], row_shape=(3,), encoding="raw"
    )
    for read in (column.to_numpy, lambda: list(column.blocks()), lambda: column[8], column.view):
        with pytest.raises(Truncated):
            read()


def test_rows_too_wide_for_any_array_are_corrupt() -> None:
    with pytest.raises(Corrupt, match="too wide"):
        FileColumn("v", Source(None, data=b""), [], row_shape=(2**62,), encoding="raw")
    with pytest.raises(Corrupt, match="too wide"):
        ReaderColumn("v", (0, 2**40, 2**40), np.dtype("f4"), lambda a, b: np.empty(0))


def test_views_are_zero_copies_that_cannot_be_written() -> None:
    for column in (packed([]), ArrayColumn("v", ROWS)):
        view = column.view()
        assert view is not None and np.array_equal(view, ROWS) and not view.flags.writeable
    assert packed([3]).view() is None and strided().view() is None and packed([], Whole()).view() is None


def test_segments_cover_the_rows_only_where_bytes_can_be_copied() -> None:
    for column in (packed([1, 8]), ConcatColumn("v", [packed([2]), packed([])]), RangeColumn(packed([8]), 3, 20)):
        segments = column.segments(FLOAT)
        assert segments is not None and sum(segment.rows for segment in segments) == column.rows
        data = b"".join(s.source.read_at(s.offset, s.size) for s in segments)
        assert data == column.to_numpy().tobytes()
    for column in (packed([], crc=True), strided(), ArrayColumn("v", ROWS), TakeColumn(packed([]), [1])):
        assert column.segments(FLOAT) is None
    assert packed([]).segments(Raw(np.dtype("<i4"))) is None


def test_collections_are_cut_and_joined_with_all_they_hold() -> None:
    made = Collection.from_arrays(
        {"v": ROWS, "norms": np.arange(23, dtype=np.float32), "other": vectors(5, 2)},
        vocab=[f"w{i}" for i in range(23)], records={"n": np.arange(23)}, ids=np.arange(23) * 10, metadata={"k": 1},
    )  # fmt: skip
    for part, rows in ((made.slice(3, 9), np.arange(3, 9)), (made.take([5, 1, 5]), np.array([5, 1, 5]))):
        assert list(part.columns) == ["v", "norms"]  # a column of another length cannot follow
        assert np.array_equal(part.vectors[:], ROWS[rows]) and np.array_equal(part["norms"][:], rows)
        assert list(part.vocab) == [f"w{i}" for i in rows]
        assert [record["n"] for record in part.records] == rows.tolist()
        assert part.ids[:].tolist() == (rows * 10).tolist() and part.metadata == {"k": 1}
    joined = concat([made.slice(0, 4), made.slice(4, 23)])
    assert np.array_equal(joined.vectors[:], ROWS) and list(joined.vocab) == list(made.vocab)
    assert [dict(r) for r in joined.records] == [dict(r) for r in made.records]
    assert joined.ids[:].tolist() == made.ids[:].tolist()
    mixed = concat([made.slice(0, 4), Collection.from_arrays({"v": ROWS, "norms": np.ones(23, np.float32)})])
    assert mixed.vocab is None and "only 1 of 2 inputs" in mixed.notes[0]


def test_a_collection_is_told_what_does_not_fit() -> None:
    for options, words in [
        ({"vocab": ["a"]}, "1 words for 23 rows"),
        ({"records": [{}]}, "1 records for 23 rows"),
        ({"ids": [1]}, "1 ids for 23 rows"),
        ({"ids": [1.5] * 23}, "integers or strings"),
    ]:
        with pytest.raises(InputError, match=words):
            Collection.from_arrays(ROWS, **options)
    for bad in (np.float32(1), np.array(["a"]), np.array([object()]), np.array([1j])):
        with pytest.raises(InputError, match="expected numbers"):
            Collection.from_arrays(bad)
    with pytest.raises(InputError):
        Collection({})
    with pytest.raises(KeyError, match="there are vectors"):
        Collection.from_arrays(ROWS)["x"]
