"""Warnings about files: said at the right place, or not at all where they are told in another way."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import SizeMismatchWarning
from polyvec.core.remarks import remark, unremarked


def odd() -> None:
    remark("odd", SizeMismatchWarning, stacklevel=2)


def test_a_remark_is_a_warning_of_the_line_it_is_about() -> None:
    with pytest.warns(SizeMismatchWarning, match="odd") as told:
        odd()
    assert told[0].filename == __file__


def test_nothing_is_said_within_the_block_and_all_of_it_after() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with unremarked():
            odd()
        with pytest.raises(SizeMismatchWarning):
            odd()


def test_one_thread_that_is_silent_leaves_the_others_their_warnings(tmp_path: Path) -> None:
    path = tmp_path / "long.fbin"
    pv.write(path, np.ones((3, 4), np.float32))
    path.write_bytes(path.read_bytes() + b"\0" * 4)
    within, said = threading.Event(), threading.Event()

    def silent() -> None:
        with unremarked():
            within.set()
            said.wait(60)
            pv.open(path, lenient=True).close()

    before = list(warnings.filters)
    other = threading.Thread(target=silent)
    other.start()
    assert within.wait(60)
    with pytest.warns(pv.FormatWarning) as told:
        pv.open(path, lenient=True).close()
        said.set()
        other.join()
    assert len(told) == 1  # ours
    assert warnings.filters == before
