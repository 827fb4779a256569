"""What a sink holds before its commit, as a source: its own siblings, its target's name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyvec.core.errors import Truncated
from polyvec.core.targets import open_sink


def test_a_file_is_read_back_under_its_coming_name(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a.npy", durable=False) as sink:
        sink.write(b"content")
        with sink.source() as source:
            assert source.read_at(0, 99) == b"content" and source.size == 7
            assert source.name == "a.npy" and source.label == str(tmp_path / "a.npy")
            with pytest.raises(Truncated, match=r"a\.npy") as caught:
                source.read_into(4, np.empty(9, np.uint8))
            assert "polyvec-tmp" not in str(caught.value)
        assert not (tmp_path / "a.npy").exists()


def test_siblings_are_those_written_and_not_those_that_lie_there(tmp_path: Path) -> None:
    (tmp_path / "a.npy.words.txt").write_bytes(b"of an earlier file")
    with open_sink(tmp_path / "a.npy", durable=False) as sink:
        sink.write(b"rows")
        sink.sibling("a.npy.ids.txt").write(b"1\n")
        with sink.source() as source:
            assert source.sibling("a.npy.words.txt") is None
            beside = source.sibling("a.npy.ids.txt")
            assert beside is not None and beside.read_at(0, 9) == b"1\n" and beside.name == "a.npy.ids.txt"
            beside.close()


def test_standard_output_is_read_back_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_sink("-") as sink:
        sink.write(b"content")
        with sink.source() as source:
            assert source.read_at(3, 4) == b"tent"
    assert capfdbinary.readouterr().out == b"content"
