"""Sinks over a file of this machine: digests, copies, standard output."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from polyvec.core.errors import InputError, Truncated
from polyvec.core.hashing import HASH_STEP
from polyvec.core.sources import open_source
from polyvec.core.targets import open_sink


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("size", [0, 10, 3 * HASH_STEP + 7])
def test_the_digest_is_that_of_the_finished_file(tmp_path: Path, reserved: bool, size: int) -> None:
    with open_sink(tmp_path / "a.bin", sha256=True, durable=False) as sink:
        if reserved:
            sink.reserve(8)
        for piece in range(3):
            sink.write(bytes([piece]) * (size // 3))
        if reserved:
            sink.write_at(0, b"finished")
    assert sink.hexdigest() == hashlib.sha256((tmp_path / "a.bin").read_bytes()).hexdigest()


def test_a_rewrite_of_hashed_bytes_is_in_the_digest(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a.bin", sha256=True, durable=False) as sink:
        sink.write(b"a" * (4 * HASH_STEP))
        sink.write_at(0, b"b")
        sink.write(b"c" * HASH_STEP)
    assert sink.hexdigest() == hashlib.sha256((tmp_path / "a.bin").read_bytes()).hexdigest()


@pytest.mark.parametrize("fault", ["mapping", "no thread"])
def test_the_digest_is_right_when_its_thread_fails(tmp_path: Path, fault: str) -> None:
    broken = (
        mock.patch("polyvec.core.hashing.mmap.mmap", side_effect=OSError(12, "Cannot allocate memory"))
        if fault == "mapping"
        else mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread"))
    )
    with broken, open_sink(tmp_path / "a.bin", sha256=True, durable=False) as sink:
        for _ in range(3):
            sink.write(b"a" * (2 * HASH_STEP))
    assert sink.hexdigest() == hashlib.sha256((tmp_path / "a.bin").read_bytes()).hexdigest()


def test_a_digest_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"old")
    broken = mock.patch("polyvec.core.hashing.mmap.mmap", side_effect=OSError(5, "Input/output error"))
    unread = mock.patch("polyvec.core.hashing.os.pread", side_effect=OSError(5, "Input/output error"))
    with (
        pytest.raises(OSError, match="Input/output"),
        broken,
        unread,
        open_sink(tmp_path / "a.bin", sha256=True) as sink,
    ):
        sink.write(b"a" * (2 * HASH_STEP))
    assert (tmp_path / "a.bin").read_bytes() == b"old" and names(tmp_path) == ["a.bin"]


def test_a_range_of_a_source_is_copied(tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(100_000)
    (tmp_path / "in").write_bytes(data)
    for make in (lambda: open_source(tmp_path / "in"), lambda: open_source(data)):
        with make() as source, open_sink(tmp_path / "out") as sink:
            sink.write(b"head")
            sink.copy_from(source, 5, 90_000)
        assert (tmp_path / "out").read_bytes() == b"head" + data[5:90_005]


def test_a_copy_works_where_the_kernel_cannot(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"0123456789")
    broken = mock.patch.object(os, "copy_file_range", side_effect=OSError(38, "not here"))
    with broken, open_source(tmp_path / "in") as source, open_sink(tmp_path / "out") as sink:
        sink.copy_from(source, 2, 6)
    assert (tmp_path / "out").read_bytes() == b"234567"


def test_a_source_that_shrank_is_truncated_and_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(1000))
    with open_source(tmp_path / "in") as source, pytest.raises(Truncated), open_sink(tmp_path / "out") as sink:
        os.truncate(tmp_path / "in", 10)
        sink.copy_from(source, 0, 1000)
    assert names(tmp_path) == ["in"]


def test_standard_output_gets_the_whole_file_at_commit(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_sink("-") as sink:
        sink.reserve(4)
        sink.write(b"body")
        sink.write_at(0, b"head")
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == b""
        with pytest.raises(InputError, match="standard output"):
            sink.sibling("x")
    assert capfdbinary.readouterr().out == b"headbody"
