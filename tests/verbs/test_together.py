"""Verbs with several outputs: split, ground truth in two files, a benchmark taken apart. All appear at one moment."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.locks import job_lock
from polyvec.neighbors.truth import write_truth
from polyvec.testing import vectors
from polyvec.testing.atomicity import contents, killed_at
from polyvec.verbs.benchmark import take_apart


def every_kill(folder: Path, begin: Callable[[], object], work: Callable[[], object], read: Callable[[], Any]) -> None:
    """Kill the work at each rename and removal: what is read is always what it was before or what it is after."""
    states = []
    for act in (begin, work):
        folder.mkdir(exist_ok=True)
        act()
        states.append(read())
    seen = set()
    for name in ("replace", "unlink"):
        for call in range(1, 200):
            shutil.rmtree(folder)
            folder.mkdir()
            begin()
            died = killed_at(name, call, work)
            found = read()
            assert found in states, f"{name} {call}"
            seen.add(states.index(found))
            if not died:
                break
    assert seen == {0, 1}


@pytest.mark.parametrize("target", ["s.fbin", "s{}.fbin"])
def test_a_killed_split_leaves_the_old_shards_or_the_new(tmp_path: Path, target: str) -> None:
    for name, rows in (("old", 12), ("new", 9)):
        pv.write(tmp_path / f"{name}.fbin", vectors(rows, 3, seed=rows), ids=[f"{name} {row}" for row in range(rows)])
    folder = tmp_path / "in"

    def read() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pv.open(str(folder / "s*.fbin")) as found:
                return found.vectors[:].tolist(), list(found.ids)

    every_kill(
        folder,
        lambda: pv.split(tmp_path / "old.fbin", folder / target, parts=3, durable=False),
        lambda: pv.split(tmp_path / "new.fbin", folder / target, parts=3 if "{" in target else 2, durable=False),
        read,
    )


def test_shards_of_an_earlier_split_of_another_length_go(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(12, 3), ids=range(12))
    (tmp_path / "s-00000-of-00004.txt").write_text("another suffix")
    (tmp_path / "other-00000-of-00004.fbin").write_text("another stem")
    before = contents(tmp_path)
    pv.split(tmp_path / "a.fbin", tmp_path / "s.fbin", parts=4)
    with pytest.raises(pv.InputError, match=r"s-00000-of-00004\.fbin: a shard of an earlier split.*--force"):
        pv.split(tmp_path / "a.fbin", tmp_path / "s.fbin", parts=3, overwrite=False)
    pv.split(tmp_path / "a.fbin", tmp_path / "s.fbin", parts=3)
    new = {name for name in contents(tmp_path) if name not in before}
    assert new == {
        f"s-{number:05d}-of-00003.fbin{ending}" for number in range(3) for ending in ("", ".ids.npy", ".sidecars.json")
    }
    with pytest.raises(pv.InputError, match="input"):
        pv.split(tmp_path / "s-00000-of-00003.fbin", tmp_path / "s.fbin", parts=2)


def test_numbered_files_that_may_be_others_are_named_and_stay(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(12, 3))
    pv.split(tmp_path / "a.fbin", tmp_path / "s{}.fbin", parts=4)
    receipts = pv.split(tmp_path / "a.fbin", tmp_path / "s{}.fbin", parts=2)
    assert any("s00002.fbin and 1 more" in note for note in receipts[-1].notes)
    assert (tmp_path / "s00003.fbin").exists()


def test_a_failed_split_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyvec.verbs import split

    pv.write(tmp_path / "a.fbin", vectors(12, 3))
    pv.split(tmp_path / "a.fbin", tmp_path / "s.fbin", parts=3)
    before, plain, calls = contents(tmp_path), split.write_collection, []

    def failing(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return plain(*arguments, **named)

    monkeypatch.setattr(split, "write_collection", failing)
    with pytest.raises(OSError, match="No space"):
        pv.split(tmp_path / "a.fbin", tmp_path / "s.fbin", parts=3)
    assert contents(tmp_path) == before


def test_a_killed_truth_leaves_both_files_of_one_run(tmp_path: Path) -> None:
    base, queries = vectors(50, 4, seed=1), vectors(5, 4, seed=2)
    folder = tmp_path / "in"

    def read() -> Any:
        with pv.open(folder / "gt.ibin") as ids, pv.open(folder / "gt.distances.fbin") as distances:
            return ids.vectors[:].tolist(), distances.vectors[:].tolist()

    def write(rows: np.ndarray) -> None:
        write_truth(rows, queries, folder / "gt.ibin", k=3, metric="l2", style="cuvs")

    every_kill(folder, lambda: write(base), lambda: write(base[::-1]), read)


def test_a_killed_take_apart_leaves_all_files_of_one_run(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    for name, seed in (("old", 1), ("new", 2)):
        pv.write(tmp_path / f"{name}.hdf5", {"train": vectors(9, 4, seed=seed), "test": vectors(3, 4, seed=seed + 5)})
    folder = tmp_path / "in"

    def read() -> Any:
        with pv.open(folder / "base.fbin") as base, pv.open(folder / "queries.fbin") as queries:
            return base.vectors[:].tolist(), queries.vectors[:].tolist()

    def write(name: str) -> None:
        take_apart(tmp_path / name, folder / "base.fbin", queries=folder / "queries.fbin", durable=False)

    every_kill(folder, lambda: write("old.hdf5"), lambda: write("new.hdf5"), read)


def test_two_runs_of_truth_on_one_target_exclude_each_other(tmp_path: Path) -> None:
    rows = vectors(20, 4)
    with job_lock(tmp_path / "gt.ibin"), pytest.raises(pv.InputError, match=r"gt\.ibin: another run"):
        write_truth(rows, rows[:2], tmp_path / "gt.ibin", k=3, metric="l2")
    assert contents(tmp_path) == {}
