"""Shards: order and gaps, told from file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyvec.core.errors import InputError
from polyvec.core.places import Place
from polyvec.core.shards import ShardName, arrange, expand, parse_shard_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dataset_000.fbin", ShardName("dataset", 0, None, ".fbin")),
        ("shard-00002-of-00100.fbin", ShardName("shard", 2, 100, ".fbin")),
        ("vectors.part07.fbin", ShardName("vectors", 7, None, ".fbin")),
        ("glove-6b-300d_12.npy", ShardName("glove-6b-300d", 12, None, ".npy")),
        ("base.fbin", None),
    ],
)
def test_names_are_read(name: str, expected: ShardName | None) -> None:
    assert parse_shard_name(name) == expected


def test_a_glob_gives_shards_by_number_not_by_letter(tmp_path: Path) -> None:
    for number in (10, 9, 1, 100):
        (tmp_path / f"x_{number}.fbin").write_bytes(b"")
    (tmp_path / "x_5.fbin").mkdir()
    assert [p.name for p in expand(str(tmp_path / "x_*.fbin"))] == [f"x_{n}.fbin" for n in (1, 9, 10, 100)]
    with pytest.raises(InputError, match="no file matches"):
        expand(str(tmp_path / "y_*.fbin"))


def test_a_glob_over_folders_takes_them_by_name(tmp_path: Path) -> None:
    for folder in ("a-b", "a", "a b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.fbin").write_bytes(b"")
    found = expand(tmp_path / "*" / "x.fbin")
    assert [place.path.parent.name for place in found] == ["a", "a b", "a-b"]


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].fbin").write_bytes(b"")
    assert expand(tmp_path / "a[1].fbin") == [Place.of(tmp_path / "a[1].fbin")]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a_0.x", "a_1.x", "a_2.x"], None),
        (["a_1.x", "a_2.x"], None),
        (["a_0.x", "a_2.x"], "1 of 3 shards are missing: 1"),
        (["a-0-of-3.x", "a-1-of-3.x"], "1 of 3 shards are missing: 2"),
        (["a-2-of-3.x"], "2 of 3 shards are missing: 0, 1"),
        (["a-0-of-2.x", "a-1-of-3.x"], "disagree on their total"),
        (["a_1.x", "a_01.x", "a_2.x"], "given twice: 1"),
        (["a_1.x", "a_1.x"], "a_1.x is given more than once"),
        (["base.x", "a_7.x"], None),
        (["base.x", "a_0.x", "a_2.x"], "1 of 3 shards are missing: 1"),
        (["a_7.x"], None),
    ],
)
def test_gaps_and_duplicates_are_told(names: list[str], problem: str | None) -> None:
    problems = arrange([Place.of(name) for name in names]).problems
    if problem is None:
        assert problems == ()
    else:
        assert any(problem in found for found in problems)
