"""The journal of a commit: what a name means while it is there. (tests/core/test_commits.py has its hostile ones.)"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.errors import FormatError
from polyvec.core.journal import (
    JOURNAL,
    TEMP_SUFFIX,
    Journal,
    Move,
    Removal,
    absent,
    before,
    exists,
    is_file,
    locate,
    may_act,
    open_named,
    parse_journal,
    pending,
    read_journal,
    temp_stem,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20)


def temp(name: str) -> str:
    return f".{temp_stem(name)}.01234567{TEMP_SUFFIX}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """a is replaced, b is new, c goes."""
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "c").write_bytes(b"goes")
    for name in ("a", "b"):
        (tmp_path / temp(name)).write_bytes(b"new")
    moves = {name: Move(name, temp(name), before(tmp_path / name)) for name in ("a", "b")}
    journal = Journal(moves, {"c": Removal("c", before(tmp_path / "c"))})
    (tmp_path / JOURNAL).write_bytes(journal.to_bytes())
    return tmp_path


def test_names_stand_for_what_the_commit_makes_of_them(folder: Path) -> None:
    assert locate(folder / "a") == folder / temp("a") and locate(folder / "b") == folder / temp("b")
    assert locate(folder / "c") is None and not exists(folder / "c") and is_file(folder / "b")
    assert pending(folder) == ({"a", "b"}, {"c"})
    file, where = open_named(folder / "b")
    with file:
        assert file.read() == b"new" and where == folder / temp("b")
    with pytest.raises(FileNotFoundError):
        open_named(folder / "c")


def test_a_file_that_somebody_changed_since_stands_for_itself(folder: Path) -> None:
    for name in ("a", "c"):
        (folder / name).write_bytes(b"another's")
    (folder / "b").write_bytes(b"another's")
    for name in ("a", "b", "c"):
        assert locate(folder / name) == folder / name
    assert pending(folder) == (set(), set())


def test_what_was_renamed_already_stands_for_itself(folder: Path) -> None:
    (folder / temp("a")).replace(folder / "a")
    assert locate(folder / "a") == folder / "a" and (folder / "a").read_bytes() == b"new"


def test_without_a_journal_a_name_is_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert read_journal(tmp_path) is None and pending(tmp_path) == (set(), set())
    assert locate(tmp_path / "a") == tmp_path / "a" and locate(tmp_path / "b") is None
    assert absent(str(tmp_path / "b")) and not absent(str(tmp_path / "a"))
    assert not exists(tmp_path / "a" / "below a file") and not is_file(tmp_path)


def test_an_absent_name_may_be_one_that_a_commit_makes(folder: Path) -> None:
    assert not absent(str(folder / "b"))


@settings(max_examples=50, deadline=None)
@given(st.lists(NAMES, unique=True, max_size=4), st.lists(NAMES, unique=True, max_size=3))
def test_a_journal_reads_back_as_it_was_written(moved: list[str], gone: list[str]) -> None:
    bad = {".", "..", JOURNAL}
    moves = {name: Move(name, temp(name), (len(name), 2**62)) for name in moved if name not in bad}
    journal = Journal(moves, {name: Removal(name, None) for name in gone if name not in bad})
    assert parse_journal(journal.to_bytes()) == journal


@pytest.mark.parametrize("place", range(0, 200, 13))
def test_a_flipped_bit_is_a_damaged_journal(folder: Path, place: int) -> None:
    data = bytearray((folder / JOURNAL).read_bytes())
    data[place % len(data)] ^= 2
    with pytest.raises(FormatError):
        parse_journal(bytes(data))


def test_a_name_of_any_length_has_a_temporary_file(tmp_path: Path) -> None:
    assert temp_stem("short.npy") == "short.npy"
    long = "ü" * 127 + "x"
    assert len(os.fsencode(temp(long))) <= 255 and temp(long) != temp("ü" * 127 + "y")


def test_in_a_sticky_folder_only_its_owner_and_root_may_act(tmp_path: Path) -> None:
    other = os.geteuid() + 4242
    assert may_act(other, tmp_path)
    tmp_path.chmod(0o1777)
    assert not may_act(other, tmp_path) and may_act(os.geteuid(), tmp_path) and may_act(0, tmp_path)
