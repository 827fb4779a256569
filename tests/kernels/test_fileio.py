"""Reads and writes by offset: whole however little the system does at a time, and many at once with their sums."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from polyvec.kernels import available_paths, crc32, fileio, use_path
from polyvec.kernels.fileio import Filler, fill, read_all, write_all

DATA = os.urandom(5000)


@pytest.fixture
def fd(tmp_path: Path):
    handle = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(handle, DATA, 0)
    yield handle
    os.close(handle)


@pytest.mark.parametrize("most", [1 << 30, 7])
def test_short_reads_and_writes_go_on(fd: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileio, "MOST", most)
    buffer = bytearray(100)
    assert read_all(fd, memoryview(buffer), 50) == 100 and bytes(buffer) == DATA[50:150]
    assert write_all(fd, memoryview(b"x" * 30), 10) == 30
    assert os.pread(fd, 32, 9) == DATA[9:10] + b"x" * 30 + DATA[40:41]


def test_the_end_of_a_file_ends_a_read(fd: int) -> None:
    buffer = bytearray(100)
    assert read_all(fd, memoryview(buffer), 4990) == 10 and buffer[:10] == DATA[4990:] and not any(buffer[10:])
    assert read_all(fd, memoryview(buffer), 9000) == 0


@pytest.mark.parametrize("path", sorted({available_paths()[0], "numpy"}))
def test_buffers_are_filled_at_once_with_the_sum_of_each_range(fd: int, path: str) -> None:
    loads = np.array([[0, 100, 0], [4000, 1000, 100], [5000, 0, 1100]])
    outs = [np.zeros(1200, np.uint8) for _ in range(5)]
    with use_path(path), Filler(fd, 2) as filler:
        tickets = [filler.submit(loads, out, check=number != 4) for number, out in enumerate(outs)]
        sums = [filler.wait(ticket).tolist() for ticket in reversed(tickets)]
    assert all(out[:1100].tobytes() == DATA[:100] + DATA[4000:] and not out[1100:].any() for out in outs)
    assert sums[1] == [crc32(DATA[:100]), crc32(DATA[4000:]), 0] and sums[0] == [0, 0, 0]


@pytest.mark.parametrize("path", sorted({available_paths()[0], "numpy"}))
def test_a_range_beyond_the_file_is_told_to_who_waits(fd: int, path: str) -> None:
    with use_path(path), Filler(fd, 1) as filler:
        bad = filler.submit(np.array([[4999, 2, 0]]), np.zeros(2, np.uint8), check=False)
        good = filler.submit(np.array([[0, 2, 0]]), np.zeros(2, np.uint8), check=False)
        with pytest.raises(EOFError, match="shorter"):
            filler.wait(bad)
        filler.wait(good)


def test_python_fills_as_the_compiled_module_does(fd: int) -> None:
    out, sums = np.zeros(10, np.uint8), np.zeros(2, np.uint32)
    fill(fd, np.array([[5, 4, 6], [0, 3, 0]]), out, sums, True)
    assert out.tobytes() == DATA[:3] + bytes(3) + DATA[5:9] and sums.tolist() == [crc32(DATA[5:9]), crc32(DATA[:3])]
