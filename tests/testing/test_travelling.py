"""The suite of collections in other hands finds what it is for: threads that disturb each other, files left open."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.testing import Sample, vectors
from polyvec.testing.travelling import TravellingSuite

SAMPLE = Sample("five", Collection.from_arrays(vectors(5, 3)))


class Suite(TravellingSuite):
    """Over .fbin files; ``opened`` may be changed on its way."""

    def __init__(self, change: Callable[[Collection], Collection] = lambda found: found) -> None:
        self.change = change

    def _export(self, sample: Any, folder: Path) -> dict[str, bytes]:
        return {"sample.fbin": struct.pack("<II", 5, 3) + sample.collection.vectors.to_numpy().tobytes()}

    def _name(self, sample: Any) -> str:
        return "sample.fbin"

    def _opener(self, sample: Any, folder: Path) -> Callable[[], Collection]:
        opener = super()._opener(sample, folder)
        return lambda: self.change(opener())


TESTS = [name for name in dir(TravellingSuite) if name.startswith("test_")]


@pytest.mark.parametrize("test", TESTS)
def test_a_right_format_passes(test: str, tmp_path: Path) -> None:
    getattr(Suite(), test)(SAMPLE, tmp_path)


def test_rows_that_depend_on_the_thread_are_found(tmp_path: Path) -> None:
    class Own(ArrayColumn):
        def take(self, rows: Any, **how: Any) -> Any:
            found = np.array(super().take(rows, **how))
            return found if threading.current_thread() is threading.main_thread() else found + 1

    changed = Suite(lambda found: Collection({"vectors": Own("vectors", found.vectors.to_numpy())}))
    with pytest.raises(AssertionError):
        changed.test_threads_read_what_one_thread_reads(SAMPLE, tmp_path)


def test_a_file_that_stays_open_is_found(tmp_path: Path) -> None:
    kept: list[int] = []

    def leak(found: Collection) -> Collection:
        kept.append(os.open(os.devnull, os.O_RDONLY))
        return found

    try:
        with pytest.raises(AssertionError):
            Suite(leak).test_what_nobody_closes_closes_with_its_last_reader(SAMPLE, tmp_path)
    finally:
        for descriptor in kept:
            os.close(descriptor)


def test_a_collection_that_arrives_as_another_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Renamed(Collection):
        def __reduce__(self) -> Any:
            return Collection.from_arrays, (vectors(5, 3) + 1,)

    changed = Suite(lambda found: Renamed(found.columns))
    with pytest.raises(AssertionError):
        changed.test_a_collection_travels_by_the_name_of_its_file(SAMPLE, tmp_path)
