"""The journal of a commit: how several files of a folder change at one moment, and what a name means meanwhile.

``.polyvec-commit.json`` lists which temporary file becomes which file, and which files go. From the moment it is there
the new files count: a name in it stands for its temporary file until that has been renamed, and a file that goes
counts as gone. Each entry remembers what the name was when the journal was written; where somebody has changed
the file since, the entry says nothing any more. Readers only read it; the next writer finishes what it lists.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from polyvec.core.errors import FormatError
from polyvec.core.remarks import remark
from polyvec.core.strict_json import parse_json

JOURNAL = ".polyvec-commit.json"
TEMP_SUFFIX = ".polyvec-tmp"
VERSION = 1
MAX_BYTES = 64 << 20  # a quarter of a million files
LONGEST_NAME = 255 - len(f"..01234567{TEMP_SUFFIX}")

NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # there is no such file

Before = tuple[int, int] | None  # size and mtime_ns of a file, or that there is none; inodes are not stable everywhere


@dataclass(frozen=True, slots=True)
class Move:
    """A temporary file that becomes ``name``, which was ``before`` until then."""

    name: str
    temp: str
    before: Before


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that goes."""

    name: str
    before: Before


@dataclass(frozen=True, slots=True)
class Journal:
    """What a commit does, by name."""

    moves: Mapping[str, Move] = field(default_factory=dict)
    removals: Mapping[str, Removal] = field(default_factory=dict)

    def temp_of(self, path: Path) -> Path | None:
        """The temporary file that a path stands for; None where it stands for itself."""
        move = self.moves.get(path.name)
        if move is None or before(path) != move.before:
            return None
        temp = path.with_name(move.temp)
        return temp if temp.is_file() else None

    def removes(self, path: Path) -> bool:
        """Whether a path counts as gone."""
        gone = self.removals.get(path.name)
        return gone is not None and before(path) == gone.before

    def to_bytes(self) -> bytes:
        """The journal as a file."""
        body = {
            "polyvec-commit": VERSION,
            "moves": [[move.name, move.temp, move.before] for move in self.moves.values()],
            "removals": [[gone.name, gone.before] for gone in self.removals.values()],
        }
        return json.dumps({**body, "sha256": _digest(body)}).encode("ascii")


def temp_stem(name: str) -> str:
    """What a temporary file is called after: its target's name, cut where the whole would be too long."""
    raw = os.fsencode(name)
    if len(raw) <= LONGEST_NAME:
        return name
    return f"{os.fsdecode(raw[: LONGEST_NAME - 9])}~{hashlib.sha256(raw).hexdigest()[:8]}"


def before(path: Path) -> Before:
    """What a name is now, as a journal remembers it."""
    try:
        found = path.lstat()
    except OSError as error:
        if error.errno not in NOTHING:
            raise
        return None
    return found.st_size, found.st_mtime_ns


def read_journal(folder: str | os.PathLike[str]) -> Journal | None:
    """The journal of a folder; None where there is none, or none that may be believed."""
    path = f"{os.fspath(folder)}/{JOURNAL}"
    data = read_trusted(path)
    if data is None:
        return None
    try:
        return parse_journal(data, path)
    except FormatError as error:
        remark(f"{error}; it is passed over", stacklevel=2)
        return None


def read_trusted(path: str) -> bytes | None:
    """The bytes of a journal; None where there is none, or where its owner has no right to what it says."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:  # nearly always
        return None
    except OSError:
        # One that counts must not be passed over: the files may be half of one set and half of another.
        if _is_there(path):
            raise
        return None
    try:
        if not _counts(os.fstat(fd), path):
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(fd)


def _is_there(path: str) -> bool:
    try:
        return _counts(os.lstat(path), path)
    except OSError:
        return False


def _counts(found: os.stat_result, path: str) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES and may_act(found.st_uid, Path(path).parent)


def may_act(owner: int, folder: Path) -> bool:
    """Whether a user could do by hand what is left in his name: not to the files of others in a sticky folder."""
    found = folder.stat()
    return not found.st_mode & stat.S_ISVTX or owner in (0, os.geteuid(), found.st_uid)


def parse_journal(data: bytes, label: str = JOURNAL) -> Journal:
    """The journal in a file's bytes; `FormatError` where they are not exactly one, whole and harmless."""
    body = parse_json(data, path=label, field="journal")
    try:
        digest = body.pop("sha256")
        if set(body) != {"polyvec-commit", "moves", "removals"} or body["polyvec-commit"] != VERSION:
            raise ValueError
        if digest != _digest(body):
            raise ValueError
        moves = [Move(_plain(name), _plain(temp), _before(was)) for name, temp, was in body["moves"]]
        removals = [Removal(_plain(name), _before(was)) for name, was in body["removals"]]
        for move in moves:
            if not re.fullmatch(
                rf"\.{re.escape(temp_stem(move.name))}\.[0-9a-f]{{8}}{re.escape(TEMP_SUFFIX)}", move.temp
            ):
                raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise FormatError("the journal of an earlier write is damaged", path=label) from None
    return Journal({move.name: move for move in moves}, {gone.name: gone for gone in removals})


def _plain(name: Any) -> str:
    """A file name in the journal's own folder, and nothing that leads out of it or at the journal itself."""
    if not isinstance(name, str) or not name or "/" in name or "\0" in name or name in (".", "..", JOURNAL):
        raise ValueError
    os.fsencode(name)
    return name


def _before(value: Any) -> Before:
    if value is None:
        return None
    size, mtime = value
    if type(size) is not int or type(mtime) is not int:
        raise ValueError
    return size, mtime


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode("ascii")).hexdigest()


# -- what a name means


def locate(path: Path) -> Path | None:
    """Where the bytes that a path names lie at this moment; None where there is nothing."""
    text = os.fspath(path)
    # First the journal, then the folder: a name that a commit under way makes is in one of them at any moment.
    journal = read_journal(os.path.dirname(text) or ".")  # noqa: PTH120 (asked at every open)
    mode = _mode(text)
    linked = mode is not None and stat.S_ISLNK(mode)
    if linked:
        text = os.path.realpath(text)
        journal = read_journal(os.path.dirname(text) or ".")  # noqa: PTH120
    elif journal is None:
        return None if mode is None else path
    if journal is not None:
        real = Path(text)
        if (temp := journal.temp_of(real)) is not None:
            return temp
        if journal.removes(real):
            return None
    return path if path.exists() else None


def absent(text: str) -> bool:
    """Whether a path names nothing and no commit is under way beside it; soon told."""
    return read_journal(os.path.dirname(text) or ".") is None and _mode(text) is None  # noqa: PTH120


def present(folder: str, names: Sequence[str]) -> Sequence[str]:
    """Those of the names that lie in a folder; all of them where a commit is under way there. Asked at every open."""
    if read_journal(folder or ".") is not None:
        return names
    return [name for name in names if _mode(folder + name) is not None]


def _mode(text: str) -> int | None:
    try:
        return os.lstat(text).st_mode
    except OSError as error:
        if error.errno not in NOTHING:
            raise
        return None


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether a path names something."""
    return locate(Path(path)) is not None


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a plain file."""
    path = path if isinstance(path, Path) else Path(path)
    while (found := locate(path)) is not None:
        if found.is_file():
            return True
        if found is path:
            break  # else a temporary file that was renamed at this very moment: look again
    return False


def open_named(path: Path) -> tuple[BinaryIO, Path]:
    """Open what a path names, for reading: the file, and the name under which it lies at this moment."""
    while True:
        found = locate(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if found is path:
            return path.open("rb", buffering=0), path
        with contextlib.suppress(FileNotFoundError):  # renamed at this very moment: look again
            return found.open("rb", buffering=0), found


def pending(folder: Path) -> tuple[set[str], set[str]]:
    """The names that a journal adds to a folder's listing, and those that it takes away."""
    journal = read_journal(folder)
    if journal is None:
        return set(), set()
    added = {name for name in journal.moves if journal.temp_of(folder / name) is not None}
    return added, {name for name in journal.removals if journal.removes(folder / name)}
