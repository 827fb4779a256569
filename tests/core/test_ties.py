"""Ties: a file and its sidecars know each other by size and bytes; what is another's, changed or lost is told."""

from __future__ import annotations

import hashlib
import json

import pytest

from polyvec.core.errors import Corrupt
from polyvec.core.ties import (
    END_BYTES,
    TIE,
    WHOLE_BYTES,
    Tie,
    check_all_there,
    check_digests,
    check_file,
    check_sidecar,
    fingerprint,
    read_tie,
)
from polyvec.testing import MemorySource

WORDS = b"one\ntwo\n"


def mark(data: bytes) -> str:
    return fingerprint(lambda at, size: data[at : at + size], len(data))


def tie(data: bytes = b"rows") -> Tie:
    return Tie(len(data), mark(data), {".words.txt": (len(WORDS), hashlib.sha256(WORDS).hexdigest())})


def source(data: bytes = b"rows", told: bytes | None = None, **beside: bytes) -> MemorySource:
    files = {"a.npy" + TIE: tie().to_bytes() if told is None else told}
    return MemorySource(data, "a.npy", {**files, **{f"a.npy.{name}.txt": value for name, value in beside.items()}})


def test_a_tie_reads_back_as_it_was_written() -> None:
    assert read_tie(source()) == tie() and read_tie(MemorySource(b"", "a.npy")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"polyvec-sidecars": 2},
        {"file": {"bytes": -1, "fingerprint": ""}},
        {"file": {"bytes": True, "fingerprint": ""}},
        {"file": {"bytes": 4}},
        {"sidecars": [".words.txt"]},
        {"sidecars": {".words.txt": {"bytes": 1, "sha256": 7}}},
    ],
)
def test_a_tie_that_says_something_else_is_corrupt(change: dict) -> None:
    told = json.dumps({**json.loads(tie().to_bytes()), **change}).encode()
    with pytest.raises(Corrupt, match="does not say which sidecars"):
        read_tie(source(told=told))


def test_every_byte_of_a_small_file_and_the_ends_of_a_large_one_are_in_the_fingerprint() -> None:
    small = bytes(1000)
    assert all(mark(small[:at] + b"x" + small[at + 1 :]) != mark(small) for at in (0, 500, 999))
    large = bytearray(WHOLE_BYTES + 3)
    first = mark(bytes(large))
    for at in (0, END_BYTES - 1, len(large) - 1):
        large[at] ^= 1
        assert mark(bytes(large)) != first
        large[at] ^= 1
    assert mark(bytes(large) + b"\0") != first


def test_reads_of_a_large_file_are_bounded_and_inside_it() -> None:
    read: list[tuple[int, int]] = []
    size = 10**12
    fingerprint(lambda at, count: read.append((at, count)) or b"", size)
    assert sum(count for _, count in read) < 1 << 20 and max(at + count for at, count in read) == size


def test_another_file_is_told_by_its_size_or_its_bytes() -> None:
    check_file(source(), tie())
    with pytest.raises(Corrupt, match=r"not the one that a\.npy.words.txt was written with") as caught:
        check_file(source(b"other"), tie())
    assert (caught.value.expected, caught.value.found) == ("4 bytes", "5 bytes")
    with pytest.raises(Corrupt, match="it is as long, and its bytes differ"):
        check_file(source(b"ROWS"), tie())


def test_a_sidecar_of_another_size_and_one_that_is_lost_are_told() -> None:
    check_sidecar(MemorySource(WORDS, "a.npy.words.txt"), ".words.txt", tie())
    check_sidecar(MemorySource(b"", "a.npy.ids.txt"), ".ids.txt", tie())
    with pytest.raises(Corrupt, match=r"not the one that was written with a\.npy"):
        check_sidecar(MemorySource(WORDS + b"x", "a.npy.words.txt"), ".words.txt", tie())
    check_all_there(source(words=b""), tie(), [])
    check_all_there(source(), tie(), [".words.txt"])
    with pytest.raises(Corrupt, match=r"its sidecar a\.npy\.words\.txt is missing"):
        check_all_there(source(), tie(), [])


def test_verifying_compares_every_byte_of_every_sidecar() -> None:
    assert list(check_digests(source(words=WORDS))) == []
    [changed] = check_digests(source(words=WORDS.upper()))
    assert changed.field == "sha256" and changed.found == hashlib.sha256(WORDS.upper()).hexdigest()
    [lost] = check_digests(source())
    assert "is missing" in str(lost)
    assert list(check_digests(MemorySource(b"", "a.npy"))) == []
