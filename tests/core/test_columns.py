"""Columns: every way to ask for rows gives the rows that NumPy gives, from files, arrays and views."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyvec as pv
from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Block, Codec, Extent, PartTypes, Raw
from polyvec.core.collection import Collection, concat
from polyvec.core.columns import ArrayColumn, Column, FileColumn, ReaderColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.records import ColumnRecords, ListRecords, Records, RunRecords
from polyvec.core.sources import open_source
from polyvec.core.views import ConcatColumn, RangeColumn, TakeColumn
from polyvec.formats.cvc import FORMAT as CVC
from polyvec.kernels import crc32
from polyvec.testing import vectors
from polyvec.writing.write import write

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
    return FileColumn("v", open_source(data), extents, row_shape=(3,), encoding=codec.name)


def strided() -> FileColumn:
    """ROWS with four bytes before each row, as .fvecs has them."""
    data = b"".join(b"dims" + row.tobytes() for row in ROWS)
    extent = Extent(0, 23, 4, 23 * 16 - 4, FLOAT, stride=16)
    return FileColumn("v", open_source(data), [extent], row_shape=(3,), encoding="raw")


@cache
def planes() -> bytes:
    """ROWS in byte planes, in chunks that can only be decoded whole."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.cvc"
        write(path, ROWS, encoding="lossless", chunk_rows=9, measure=False, durable=False)
        return path.read_bytes()


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
        "concat": ConcatColumn(
            "v",
            [
                ArrayColumn("v", ROWS[:9]),
                packed([9]).__class__(
                    "v",
                    open_source(ROWS[9:].tobytes()),
                    [Extent(0, 14, 0, 14 * 12, FLOAT)],
                    row_shape=(3,),
                    encoding="raw",
                ),
            ],
        ),
        "range": RangeColumn(ArrayColumn("v", big), 4, 27),
        "range of extents": RangeColumn(
            ConcatColumn("v", [ArrayColumn("v", big[:4]), packed([1, 8, 20], crc=True)]), 4, 27
        ),
        "take": TakeColumn(ArrayColumn("v", big), range(4, 27)),
        "planes": CVC.open(open_source(planes(), name="rows.cvc")).vectors,
    }


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
    for key in (
        slice(2, 19),
        slice(None, None, 4),
        slice(20, 3, -3),
        slice(5, 2),
        slice(-4, None),
        0,
        22,
        -1,
        -23,
        np.array([3, 3, 22, 0]),
        np.array([-1, 0]),
        [],
        np.arange(23) % 3 == 0,
        np.int64(4),
    ):
        expected = ROWS[np.asarray(key, np.int64)] if isinstance(key, list) else ROWS[key]
        assert np.array_equal(column[key], expected), key
    assert [len(batch) for batch in column.batches(10)] == [10, 10, 3]
    assert np.array_equal(np.stack(list(column)), ROWS)
    for bad in (23, -24, np.array([23]), np.array([-24]), np.ones(5, bool)):
        with pytest.raises(IndexError):
            column[bad]
    with pytest.raises(ValueError, match="out must be"):
        column.to_numpy(np.empty((22, 3), np.float32))
    fixed = np.empty(column.shape, column.dtype)
    fixed.flags.writeable = False
    for bad in (3, "rows", [0.0], np.empty(column.shape, np.complex64), fixed):
        with pytest.raises(InputError, match=r"^out must be a writeable array, \(23, 3\) "):
            column.to_numpy(bad)
    for bad in ("a", 1.5, 0, -1, True):
        with pytest.raises(InputError, match=r"^rows must be a whole number|^a batch has at least 1 row"):
            next(column.batches(bad))
        with pytest.raises(InputError, match=r"^rows must be a whole number|^a block has at least 1 row"):
            next(column.blocks(bad))


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
    bad = FileColumn("v", open_source(bytes(data), name="x.v"), extents, row_shape=(3,), encoding="raw")
    for read in (bad.to_numpy, lambda: bad[8:16], lambda: list(bad.blocks(3)), lambda: bad.take(np.arange(23))):
        with pytest.raises(Corrupt, match=r"x\.v: rows 8 to 15 fail their checksum.*at byte \d+"):
            read()
    assert np.array_equal(bad[:8], ROWS[:8]) and np.array_equal(bad[16:], ROWS[16:])
    unchecked = FileColumn("v", bad.source, extents, row_shape=(3,), encoding="raw", check=False)
    assert unchecked.to_numpy().shape == ROWS.shape


def test_rows_that_are_not_there_are_truncated() -> None:
    column = FileColumn("v", open_source(bytes(100)), [Extent(0, 9, 0, 108, FLOAT)], row_shape=(3,), encoding="raw")
    for read in (column.to_numpy, lambda: list(column.blocks()), lambda: column[8], column.view):
        with pytest.raises(Truncated):
            read()


def test_rows_too_wide_for_any_array_are_corrupt() -> None:
    with pytest.raises(Corrupt, match="too wide"):
        FileColumn("v", open_source(b""), [], row_shape=(2**62,), encoding="raw")
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


EDGES = st.none() | st.integers(-60, 60)
NUMBERS = st.integers(-23, 22)
INSIDE = (
    st.integers(-3, 2)
    | st.builds(slice, st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5))
    | st.lists(st.integers(-3, 2), min_size=1, max_size=3)
    | st.lists(st.booleans(), min_size=3, max_size=3)
)
FIRST = (
    st.integers(-30, 30)
    | st.builds(slice, EDGES, EDGES, st.none() | st.sampled_from([-7, -2, -1, 1, 2, 5, 40]))
    | st.lists(NUMBERS, max_size=4)
    | st.lists(NUMBERS, min_size=1, max_size=4).map(lambda n: np.array(n, np.int8))
    | st.lists(st.integers(0, 22), min_size=1, max_size=4).map(lambda n: np.array(n, np.uint64))
    | st.lists(NUMBERS, min_size=4, max_size=4).map(lambda n: np.array(n).reshape(2, 2))
    | st.lists(st.booleans(), min_size=23, max_size=23).map(np.array)
)
KEYS = (
    FIRST
    | st.just(...)
    | st.tuples(FIRST)
    | st.tuples(FIRST, INSIDE)
    | st.tuples(FIRST, st.just(...))
    | st.tuples(st.just(...), INSIDE)
    | st.tuples(FIRST, st.just(...), INSIDE)
    | st.tuples(FIRST, INSIDE, INSIDE)
)


@given(name=st.sampled_from(list(columns())), key=KEYS)
@settings(max_examples=600, deadline=None)
def test_any_key_gives_what_numpy_gives_or_the_same_refusal(name: str, key: Any) -> None:
    column = columns()[name]
    try:
        expected = ROWS[key]
    except IndexError:
        with pytest.raises(IndexError):
            column[key]
        return
    found = column[key]
    assert np.shape(found) == expected.shape and found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_keys_of_deeper_columns_are_numpys_too() -> None:
    cube = np.arange(5 * 4 * 3 * 2, dtype=np.float32).reshape(5, 4, 3, 2)
    column = ReaderColumn("v", cube.shape, cube.dtype, lambda a, b: cube[a:b])
    for key in (
        (1, 2, 0, 1),
        (slice(1, 4), 2),
        (slice(None), [0, 2], 1),
        (slice(None), 0, slice(None), [1, 0]),
        (1, slice(None), [0, 2]),
        ([1, 2], slice(None), [0, 1]),
        (..., 1),
        (slice(None), ..., [0, 1]),
        ([[0], [1]], [2, 3]),
        (slice(None), [0, 1], slice(None), [0, 1]),
        (np.ix_([1, 4], [0, 2])),
        (slice(9, None), [0, 1], [1, 2]),
        (slice(3, 1), 2, [0, 1]),
    ):
        assert np.array_equal(column[key], cube[key]), key
        assert column[key].shape == cube[key].shape
    flat = ArrayColumn("n", np.arange(5))
    assert flat[2] == 2 and flat[[[0, 1], [2, 4]]].tolist() == [[0, 1], [2, 4]]
    with pytest.raises(IndexError, match="too many indices: the column has 1 axes, and 2"):
        flat[1, 2]


def test_one_number_is_one_number_and_not_rows() -> None:
    for column in columns().values():
        assert column[1, 2] == ROWS[1, 2] and np.ndim(column[1, 2]) == 0
        assert np.array_equal(column[:, :2], ROWS[:, :2])


@pytest.mark.parametrize(
    "key",
    [
        True,
        np.True_,
        1.0,
        np.float32(2),
        np.array([1.0]),
        np.array([]),
        "v",
        None,
        (0, None),
        (0, True),
        (0, 1.0),
        [1.5],
        [None],
        (..., ...),
        np.ones((23, 3), bool),
        (0, 0, 0),
        1j,
        (0, 3),
        (slice(0), 3),
    ],
)
def test_what_is_no_row_number_is_an_index_error_that_says_so(key: Any) -> None:
    for name, column in columns().items():
        with pytest.raises(IndexError) as error:
            column[key]
        assert "\n" not in str(error.value) and len(str(error.value)) > 20, name


def test_values_inside_rows_are_read_a_block_at_a_time() -> None:
    asked: list[int] = []

    def read(start: int, stop: int) -> Array:
        asked.append(stop - start)
        return np.zeros((stop - start, 1 << 18), np.float32)

    column = ReaderColumn("v", (40, 1 << 18), np.dtype(np.float32), read)  # 40 MB, blocks of 8
    assert column[:, :4].shape == (40, 4) and max(asked) <= 8
    assert column[:, 7].base is None or column[:, 7].base.nbytes <= 40 * 4, "the values must not hold on to the rows"


def test_wide_rows_are_walked_in_bounded_memory() -> None:
    wide = (1 << 22,)
    column = ReaderColumn("v", (500, *wide), np.dtype(np.float32), lambda a, b: np.zeros((b - a, *wide), np.float32))
    first = next(iter(column))
    assert first.base is not None and first.base.nbytes <= MAX_BLOCK_BYTES  # all 500 would be 8 GB


@pytest.mark.parametrize("name", list(columns()))
def test_rows_beyond_the_end_are_cut_or_refused_never_made_up(name: str) -> None:
    column = columns()[name]
    for start, stop in ((0, 99), (20, 99), (23, 30), (40, 50), (-5, None), (-5, 99), (-99, 3), (0, -20), (5, 2)):
        expected = ROWS[start:stop]
        blocks = [block.decode().copy() for block in column.blocks(4, start=start, stop=stop)]
        assert np.array_equal(np.concatenate([expected[:0], *blocks]), expected), (start, stop)
        rows = sum(extent.rows for extent in column.extents(start, stop))
        assert rows >= len(expected) or not list(column.extents())
        view = RangeColumn(column, start, stop)
        assert view.shape == expected.shape and np.array_equal(view[:], expected)
        assert np.array_equal(np.asarray(column.batches(50).__next__())[start:stop], expected)
    for bad in ([23], [-24], [0, 23], np.array([2**63], np.uint64), range(20, 24), [0.5], np.zeros(3, bool)):
        with pytest.raises(IndexError):
            column.take(bad)
        with pytest.raises(IndexError):
            TakeColumn(column, bad)
    assert np.array_equal(column.take([-1, 0]), ROWS[[-1, 0]]) and column.take([]).shape == (0, 3)
    assert np.array_equal(column.take([[0, 1], [2, -1]]), ROWS[[[0, 1], [2, -1]]])
    assert np.array_equal(TakeColumn(column, ROWS[:, 0] > 0)[:], ROWS[ROWS[:, 0] > 0])
    assert np.array_equal(TakeColumn(column, range(5, -1, -1))[:], ROWS[5::-1])
    for rows in (0, -1):
        with pytest.raises(InputError, match="at least 1 row"):
            list(column.blocks(rows))
        with pytest.raises(InputError, match="at least 1 row"):
            list(column.batches(rows))


class Forgetful(Column):
    """A column whose blocks are not the rows asked for."""

    def __init__(self, blocks: list[Block]) -> None:
        self.name, self.shape, self.dtype, self.encoding = "v", (6, 3), np.dtype(np.float32), "raw"
        self._given = blocks

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        return iter(self._given)


def test_rows_that_do_not_come_are_an_error_and_no_memory_of_old() -> None:
    def block(start: int, rows: int, there: int | None = None) -> Block:
        return Block(start, {"codes": ROWS[: rows if there is None else there]}, FLOAT, rows)

    for given_ in (
        [],
        [block(0, 5)],
        [block(0, 3), block(4, 2)],
        [block(1, 5)],
        [block(0, 4), block(3, 3)],
        [block(0, 6, there=5)],
        [block(0, 3), block(3, 3), block(6, 1)],
    ):
        column = Forgetful(given_)
        for read in (column.to_numpy, lambda: list(column.blocks()), lambda: column.take([0, 5])):  # noqa: B023
            with pytest.raises(Corrupt, match="did not give the rows asked for"):
                read()
    gap = FileColumn(
        "v",
        open_source(bytes(200)),
        [Extent(0, 3, 0, 36, FLOAT), Extent(4, 2, 36, 24, FLOAT)],
        row_shape=(3,),
        encoding="raw",
    )
    for read in (gap.to_numpy, lambda: list(gap.blocks()), lambda: gap.take([0, 5])):
        with pytest.raises(Corrupt, match="did not give the rows asked for"):
            read()


def records() -> dict[str, Records]:
    plain = [{"n": i} for i in range(7)]
    return {
        "list": ListRecords(plain),
        "columns": ColumnRecords({"n": list(range(7))}),
        "runs": RunRecords([(i, i + 1, {"n": i}) for i in range(7)], 7),
        "view": ListRecords([*plain, {"n": 7}]).view(range(7)),
        "taken": ListRecords(plain[::-1]).view([6, 5, 4, 3, 2, 1, 0]),
        "joined": concat(
            [Collection.from_arrays(ROWS[:n], records=r) for n, r in ((3, plain[:3]), (4, plain[3:]))]
        ).records,
    }


@pytest.mark.parametrize("name", list(records()))
def test_records_beyond_the_end_are_cut_or_refused(name: str) -> None:
    many = records()[name]
    for start, stop in ((0, 99), (5, 99), (7, 9), (-2, None), (-99, 3), (4, 2)):
        assert [r["n"] for r in many.iterate(start, stop)] == list(range(7))[start:stop]
        assert [r["n"] for r in many[start:stop]] == list(range(7))[start:stop]
    assert many[-1]["n"] == 6 and [r["n"] for r in many[[-1, 0]]] == [6, 0]
    assert [r["n"] for r in many.view(np.array([-1, 2]))] == [6, 2]
    for bad in (7, -8, [7], True, 1.0, [0.5], "n"):
        with pytest.raises(IndexError):
            many[bad]
    for bad in (range(5, 9), [-8], [7], [0.5]):
        with pytest.raises(IndexError):
            many.view(bad)


def test_words_beyond_the_end_are_refused() -> None:
    words = Collection.from_arrays(ROWS, vocab=[f"w{i}" for i in range(23)]).vocab
    assert words is not None
    assert list(words.view(range(3, -1, -1))) == ["w3", "w2", "w1", "w0"] and list(words.view(range(5, 2))) == []
    assert list(words.view(range(-2, 0))) == ["w21", "w22"] and list(words.view([-1, 0])) == ["w22", "w0"]
    mask = np.arange(23) == 4
    assert list(words.view(mask)) == ["w4"] == words[mask] and words[[-1]] == ["w22"]
    for bad in (range(20, 24), [23], [-24], [0.5]):
        with pytest.raises(IndexError):
            words.view(bad)
        with pytest.raises(IndexError):
            words[np.asarray(bad)]
    for one in (23, -24, True, 1.5):
        with pytest.raises(IndexError):
            words[one]


@pytest.mark.parametrize(
    "name, options",
    [
        ("a.fbin", {}),
        ("a.f16bin", {}),
        ("a.fvecs", {}),
        ("a.npy", {}),
        ("a.npz", {}),
        ("a.h5", {}),
        ("a.safetensors", {}),
        ("a.weights", {}),
        ("a.i8bin", {"format": "i8bin"}),
        ("a.fifu", {"encoding": "pq"}),
        ("a.cvc", {"encoding": "raw", "chunk_rows": 500}),
        ("a.cvc", {"encoding": "int8", "chunk_rows": 500}),
        ("a.cvc", {"encoding": "lossless", "chunk_rows": 500}),
    ],
)
def test_one_row_of_a_large_file_reads_no_more_than_one_extent(tmp_path: Path, name: str, options: Any) -> None:
    rows = vectors(4000, 16)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pv.write(tmp_path / name, rows, durable=False, measure=False, **options)
    with pv.open(tmp_path / name, format=options.get("format")) as collection:
        column = collection.vectors
        assert isinstance(column, FileColumn)
        extents = list(column.extents())
        packed = column.codec is None or column.codec.row_bytes(column.row_shape) is None
        most = max(extent.size for extent in extents) if packed else 16 * 4 + 64  # a row, and what lies beside it
        assert len(extents) == (8 if name == "a.cvc" else 1) and most < 40_000
        for row in (0, 1999, 3999):
            before = column.source.bytes_read
            one = column[row]
            assert 0 < column.source.bytes_read - before <= most
            assert one.tobytes() == column[:][row].tobytes()
