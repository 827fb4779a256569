"""Hashing behind a writer: the digest of the finished file, whatever happened on the way."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from polyvec.core.errors import Truncated
from polyvec.core.hashing import HASH_STEP, Follower, hash_file

DATA = os.urandom(HASH_STEP // 2) * 5 + b"end"


@pytest.fixture
def fd(tmp_path: Path):
    handle = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    yield handle
    os.close(handle)


def test_bytes_are_hashed_as_they_come(fd: int) -> None:
    follower = Follower(fd)
    for at in range(0, len(DATA), 300_000):
        os.pwrite(fd, DATA[at : at + 300_000], at)
        follower.advance(min(at + 300_000, len(DATA)))
    follower.finish(len(DATA))
    assert follower.hexdigest() == hashlib.sha256(DATA).hexdigest()


def test_a_header_that_is_written_last_is_in_the_digest(fd: int) -> None:
    follower = Follower(fd)
    os.pwrite(fd, DATA, 0)
    follower.advance(len(DATA))
    os.pwrite(fd, b"HEADER", 0)
    follower.rewritten(0)
    follower.finish(len(DATA))
    assert follower.hexdigest() == hashlib.sha256(b"HEADER" + DATA[6:]).hexdigest()


def test_a_thread_that_never_comes_up_costs_a_pass_and_no_digest(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    follower = Follower(fd)
    os.pwrite(fd, DATA, 0)
    follower.advance(len(DATA))
    follower.finish(len(DATA))
    assert follower.hexdigest() == hashlib.sha256(DATA).hexdigest()
    follower.stop()


def test_an_empty_file_has_the_digest_of_nothing(fd: int) -> None:
    follower = Follower(fd)
    follower.finish(0)
    assert follower.hexdigest() == hashlib.sha256().hexdigest()


def test_a_file_that_became_shorter_is_told_with_its_place(fd: int) -> None:
    os.pwrite(fd, DATA, 0)
    assert hash_file(fd, 10).hexdigest() == hashlib.sha256(DATA[:10]).hexdigest()
    with pytest.raises(Truncated) as caught:
        hash_file(fd, len(DATA) + 1)
    assert caught.value.offset == len(DATA)
