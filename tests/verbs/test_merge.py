"""merge: the rows of all shards in order, with what every shard has."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors

ROWS = vectors(20, 3)


def read(path: Path) -> np.ndarray:
    with pv.open(path) as collection:
        return collection.vectors[:]


def write_shards(folder: Path, cuts: list[int], name: str = "s_{:03d}.fbin", **options: object) -> list[Path]:
    edges = [0, *cuts, 20]
    paths = []
    for number, (start, stop) in enumerate(pairwise(edges)):
        paths.append(folder / name.format(number))
        pv.write(paths[-1], ROWS[start:stop], **options)
    return paths


@pytest.mark.parametrize("suffix", [".fbin", ".npy", ".f16bin"])
def test_a_merge_is_the_rows_in_order(tmp_path: Path, suffix: str) -> None:
    paths = write_shards(tmp_path, [3, 3, 11])
    receipt = pv.merge(paths, tmp_path / f"all{suffix}")
    expected = ROWS.astype(np.float16) if suffix == ".f16bin" else ROWS
    assert np.array_equal(read(tmp_path / f"all{suffix}"), expected)
    assert receipt.rows == 20 and "4 files merged" in receipt.notes


def test_a_glob_merges_by_number_and_one_shard_is_enough(tmp_path: Path) -> None:
    edges = [0, 5, 12, 20]
    for number, start, stop in zip((2, 10, 100), edges, edges[1:]):
        pv.write(tmp_path / f"x_{number}.fbin", ROWS[start:stop])
    receipt = pv.merge(str(tmp_path / "x_*.fbin"), tmp_path / "all.fbin")
    assert np.array_equal(read(tmp_path / "all.fbin"), ROWS)
    assert any("missing" in note for note in receipt.notes)
    with pytest.raises(pv.InputError, match="missing"):
        pv.merge(str(tmp_path / "x_*.fbin"), tmp_path / "strict.fbin", strict=True)
    pv.merge([tmp_path / "all.fbin"], tmp_path / "one.fbin")
    assert (tmp_path / "one.fbin").read_bytes() == (tmp_path / "all.fbin").read_bytes()
    with pytest.warns(pv.FormatWarning, match="missing"), pv.open(str(tmp_path / "x_*.fbin")) as shards:
        assert np.array_equal(shards.vectors[:], ROWS)


def test_a_merge_keeps_what_every_shard_has(tmp_path: Path) -> None:
    for number in range(2):
        part = ROWS[number * 10 : number * 10 + 10]
        words = [f"w{number}-{i}" for i in range(10)]
        pv.write(
            tmp_path / f"s_{number}.fbin",
            part,
            vocab=words,
            ids=range(number * 10, number * 10 + 10),
            records=[{"from": number}] * (10) if number else None,
        )
    receipt = pv.merge([tmp_path / "s_0.fbin", tmp_path / "s_1.fbin"], tmp_path / "all.fbin")
    with pv.open(tmp_path / "all.fbin") as found:
        assert found.vocab.index("w1-4") == 14 and found.ids[:].tolist() == list(range(20))
        assert found.records is None
    assert any("records left out: only 1 of 2 inputs" in note for note in receipt.notes)


def test_mixed_dimensions_and_kinds_are_refused_by_name(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    pv.write(tmp_path / "b.fbin", vectors(4, 5))
    pv.write(tmp_path / "c.dbin", ROWS.astype(np.float64))
    with pytest.raises(
        pv.InputError, match=r"b\.fbin: expected dimension 3 of float32 as in .*a\.fbin, found dimension 5"
    ):
        pv.merge([tmp_path / "a.fbin", tmp_path / "b.fbin"], tmp_path / "all.fbin")
    with pytest.raises(pv.InputError, match="float64"):
        pv.merge([tmp_path / "a.fbin", tmp_path / "c.dbin"], tmp_path / "all.fbin")
    with pytest.raises(pv.InputError, match="nothing to merge"):
        pv.merge([], tmp_path / "all.fbin")
    assert not (tmp_path / "all.fbin").exists()
