"""Descriptors that are left open are seen; those that are closed are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from polyvec.testing.descriptors import no_descriptors_left, open_descriptors


def test_a_file_left_open_is_named(tmp_path: Path) -> None:
    with no_descriptors_left(), (tmp_path / "fine").open("w"):
        pass
    handles: list[int] = []
    with pytest.raises(AssertionError, match="left open"), no_descriptors_left():
        handles.append(os.open(tmp_path / "leak", os.O_CREAT | os.O_RDWR))
    assert handles[0] in open_descriptors()
    os.close(handles[0])
    assert handles[0] not in open_descriptors()
