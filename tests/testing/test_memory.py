"""A sink in memory keeps the contract of a sink: nothing before the commit, all of it after."""

from __future__ import annotations

import hashlib

import pytest

from polyvec.testing.memory import MemorySink


def test_files_are_there_after_the_commit_the_main_one_first() -> None:
    with MemorySink("a") as sink:
        at = sink.reserve(4)
        sink.write(b"body")
        sink.sibling("b").write(b"beside")
        sink.write_at(at, b"HEAD")
        assert sink.committed is None and sink.read_at(2, 4) == b"ADbo"
        with sink.source() as source:
            assert source.read_at(0, 9) == b"HEADbody" and source.sibling("b").read_at(0, 9) == b"beside"
    assert sink.committed == {"a": b"HEADbody", "b": b"beside"} and list(sink.committed) == ["a", "b"]
    assert sink.hexdigest() == hashlib.sha256(b"HEADbody").hexdigest()


def test_an_error_or_a_guard_leaves_nothing() -> None:
    sink = MemorySink("a")
    with pytest.raises(KeyError), sink:
        sink.write(b"x")
        raise KeyError
    assert sink.committed is None
    guarded = MemorySink("a")

    def refuse() -> None:
        raise ValueError("changed")

    guarded.guard(refuse)
    with pytest.raises(ValueError, match="changed"), guarded:
        guarded.write(b"x")
    assert guarded.committed is None
