"""A child that crashes, hangs or complains tells where, and the files after it are still examined."""

from __future__ import annotations

import os
import time

import pytest

from polyvec.testing import apart

FILES = [(f"file {number}", bytes([number])) for number in range(5)]


def test_files_that_are_sound_are_all_examined() -> None:
    assert apart.in_child(FILES, 0, lambda what, data: None) == (5, None)
    assert apart.in_child(FILES, 3, lambda what, data: None) == (5, None)


def test_a_complaint_comes_back_with_its_place() -> None:
    def examine(what: str, data: bytes) -> None:
        assert data != b"\2", f"{what} is wrong"

    done, complaint = apart.in_child(FILES, 1, examine)
    assert done == 2 and complaint is not None and complaint.startswith("file 2 is wrong")


def test_a_crash_ends_the_child_alone_and_tells_its_place() -> None:
    assert apart.in_child(FILES, 0, lambda what, data: os._exit(9) if data == b"\3" else None) == (3, None)


def test_what_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "PATIENCE", 0.3)
    assert apart.in_child(FILES, 0, lambda what, data: time.sleep(60) if data == b"\1" else None) == (1, None)


def test_no_descriptor_is_left() -> None:
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    for _ in range(3):
        apart.in_child(FILES, 0, lambda what, data: None)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
