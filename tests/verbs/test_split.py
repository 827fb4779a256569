"""split and sample: the right rows under the right names, with all that belongs to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.verbs.split import choose_rows, earlier_shards, shard_path

ROWS = vectors(20, 3)


@pytest.mark.parametrize(
    ("options", "sizes"), [({"rows": 6}, [6, 6, 6, 2]), ({"parts": 3}, [7, 6, 7]), ({"rows": 99}, [20])]
)
def test_a_split_is_merged_to_the_same_bytes(tmp_path: Path, options: dict, sizes: list[int]) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, vocab=[f"w{i}" for i in range(20)])
    receipts = pv.split(tmp_path / "a.fbin", tmp_path / "part.fbin", **options)
    assert [receipt.rows for receipt in receipts] == sizes
    total = len(sizes)
    assert [Path(r.output).name for r in receipts] == [f"part-{i:05d}-of-{total:05d}.fbin" for i in range(total)]
    pv.merge(str(tmp_path / "part-*.fbin"), tmp_path / "again.fbin")
    assert (tmp_path / "again.fbin").read_bytes() == (tmp_path / "a.fbin").read_bytes()
    with pv.open(tmp_path / "again.fbin") as found:
        assert list(found.vocab) == [f"w{i}" for i in range(20)]


def test_a_split_into_named_shards(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    receipts = pv.split(tmp_path / "a.fbin", tmp_path / "x_{}.npy", parts=2)
    assert [Path(r.output).name for r in receipts] == ["x_00000.npy", "x_00001.npy"]
    assert np.array_equal(np.load(tmp_path / "x_00001.npy"), ROWS[10:])


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"head": 4}, range(4)),
        ({"head": 0}, range(0)),
        ({"head": 99}, range(20)),
        ({"range": (5, 9)}, range(5, 9)),
        ({"range": (15, 99)}, range(15, 20)),
        ({"stride": 7}, range(0, 20, 7)),
        ({"stride": 7, "limit": 2}, range(0, 14, 7)),
    ],
)
def test_a_sample_holds_the_rows_asked_for(tmp_path: Path, options: dict, rows: range) -> None:
    pv.write(tmp_path / "a.fbin", ROWS, vocab=[f"w{i}" for i in range(20)], records={"i": list(range(20))})
    pv.sample(tmp_path / "a.fbin", tmp_path / "b.fbin", **options)
    with pv.open(tmp_path / "b.fbin") as found:
        assert np.array_equal(found.vectors[:], ROWS[list(rows)])
        assert list(found.vocab) == [f"w{i}" for i in rows]
        assert [record["i"] for record in found.records] == list(rows)


def test_a_random_sample_depends_on_its_seed_alone(tmp_path: Path) -> None:
    many = np.arange(1000, dtype=np.float32).reshape(-1, 1)
    pv.write(tmp_path / "a.fbin", many)
    found = {}
    for name, count, seed in [("a", 50, 1), ("b", 50, 1), ("c", 50, 2), ("d", 900, 1), ("e", 1000, 3)]:
        pv.sample(tmp_path / "a.fbin", tmp_path / f"out_{name}.npy", random=count, seed=seed)
        found[name] = np.load(tmp_path / f"out_{name}.npy")[:, 0]
        assert len(found[name]) == count == len(np.unique(found[name]))
        assert (np.diff(found[name]) > 0).all()
    assert np.array_equal(found["a"], found["b"]) and not np.array_equal(found["a"], found["c"])
    assert np.array_equal(found["e"], many[:, 0])


@pytest.mark.parametrize(
    ("total", "options", "says"),
    [
        (9, {}, "choose one of head, range, random or stride"),
        (9, {"head": 1, "random": 1}, "not head and random"),
        (9, {"head": -1}, "head must be at least 0"),
        (9, {"range": (5, 4)}, "start <= stop"),
        (9, {"range": (9, 12)}, "there are 9 rows"),
        (9, {"random": 10}, "at most 9"),
        (9, {"stride": 0}, "stride must be at least 1"),
        (9, {"stride": 2, "limit": -1}, "limit must be at least 0"),
    ],
)
def test_rows_that_cannot_be_chosen_are_refused_in_words(total: int, options: dict, says: str) -> None:
    with pytest.raises(pv.InputError, match=says):
        choose_rows(total, **options)


def test_an_empty_range_is_no_rows_wherever_it_is() -> None:
    assert len(choose_rows(9, range=(9, 9))) == len(choose_rows(9, range=(40, 40))) == len(choose_rows(0, head=3)) == 0


def test_shards_are_named_by_number_and_by_how_many_there_are() -> None:
    assert shard_path("a/out.fbin", 2, 12).as_posix() == "a/out-00002-of-00012.fbin"
    assert shard_path("a/x_{}.npy", 123456, 2).as_posix() == "a/x_123456.npy"


def test_shards_of_another_split_are_told_from_those_of_this_one(tmp_path: Path) -> None:
    for name in ("o-00000-of-00002.npy", "o-00000-of-00003.npy", "o-0-of-2.npy", "other-00000-of-00002.npy", "o.npy"):
        (tmp_path / name).touch()
    assert earlier_shards(tmp_path / "o.npy", 3) == ([tmp_path / "o-00000-of-00002.npy"], [])
    for name in ("x_00000.npy", "x_00002.npy", "x_2.npy"):
        (tmp_path / name).touch()
    assert earlier_shards(tmp_path / "x_{}.npy", 2) == ([], [tmp_path / "x_00002.npy"])
    assert earlier_shards(tmp_path / "none" / "o.npy", 2) == ([], [])
