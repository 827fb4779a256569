"""Places: where something lies that is read. A path of this machine, or a URL, which no pathlib ever sees.

A place is a name, not an open file: it tells its parts, its siblings and what lies there now. Local paths are answered
here; every other scheme is answered by the `Store` that is registered for it in `STORES`.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from polyvec.core.errors import InputError
from polyvec.core.journal import absent, is_file, locate, pending, read_journal

if TYPE_CHECKING:
    from polyvec.core.sources import Source

SETTLING = (0.0, 0.002, 0.005, 0.01)  # seconds between attempts at a folder that is being written to

_UNTIDY = re.compile(r"//|^$|^\./|/\.(/|$)|./$")  # what Path would write in another way
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells the bytes that lie at a place from those of another time.

    ``version`` changes whenever other bytes lie there: of a local file its time of writing and inode, of an object in a
    store its tag. The time of writing is set back by `cp -p`, `rsync -t`, `tar` and `touch`, so local files also have
    ``changed``, which nothing sets back; renaming a file, or linking to it, moves it too. ``==`` compares all three.
    """

    size: int
    version: str
    changed: str = ""

    @classmethod
    def of_file(cls, found: os.stat_result) -> Identity:
        """The identity of a local file. Not its device: a layered file system may tell two."""
        return cls(found.st_size, f"{found.st_mtime_ns}-{found.st_ino}", str(found.st_ctime_ns))

    @property
    def written(self) -> int | None:
        """The time of writing of a local file, in nanoseconds; None where a store tells none."""
        return int(self.version.split("-")[0]) if self.changed else None

    def same(self, other: Identity | None) -> bool:
        """Whether the same bytes are meant, though the file may have been renamed or linked to since."""
        return other is not None and (self.size, self.version) == (other.size, other.version)

    def to_json(self) -> list[Any]:
        """The identity as marks on disk keep it: of a local file size, times of writing and of change, and inode."""
        if not self.changed:
            return [self.size, self.version]
        written, inode = self.version.split("-")
        return [self.size, int(written), int(self.changed), int(inode)]


class Store(Protocol):
    """What answers for the places of a scheme."""

    def open(self, place: Place) -> Source:
        """A source over what lies at a place; FileNotFoundError where nothing does."""
        ...

    def identity(self, place: Place) -> Identity | None:
        """What lies at a place now; None where nothing does."""
        ...

    def glob(self, place: Place) -> list[Place]:
        """The places that a pattern names, in any order."""
        ...


STORES: dict[str, Store] = {}  # scheme -> who answers for it; local paths have none


@dataclass(frozen=True, slots=True)
class Place:
    """A local path, or a URL. ``str(place)`` is how messages name it.

    >>> Place.of("s3://bucket/base.fbin").sibling("base.fbin.words.txt")
    Place(text='s3://bucket/base.fbin.words.txt', scheme='s3')
    """

    text: str
    scheme: str = ""  # of a URL, in lower case; none of a local path

    @classmethod
    def of(cls, where: str | os.PathLike[str] | Place) -> Place:
        """The place that a path or URL names; ``file://`` URLs are local paths."""
        if isinstance(where, Place):
            return where
        text = os.fspath(where)
        match = _URL.match(text) if "://" in text else None
        if match is None:
            return cls(os.fspath(Path(text)) if _UNTIDY.search(text) else text)
        scheme = match["scheme"].lower()
        return cls(_local_path(text, match["rest"])) if scheme == "file" else cls(text, scheme)

    @property
    def local(self) -> bool:
        """Whether it is a path of this machine."""
        return not self.scheme

    @property
    def path(self) -> Path:
        """The path, of a local place; `InputError` for a URL."""
        if self.scheme:
            raise InputError(f"{self.text}: this needs a local file; name a path or a file:// URL")
        return Path(self.text)

    @property
    def store(self) -> Store:
        """Who answers for this place's scheme; `InputError` where nobody does."""
        try:
            return STORES[self.scheme]
        except KeyError:
            known = ", ".join(f"{scheme}://" for scheme in ("file", *sorted(STORES)))
            raise InputError(
                f"{self.text}: {self.scheme}:// is not supported here; name a local path, or one of {known}"
            ) from None

    @property
    def name(self) -> str:
        """The last part: what the file is called in its folder."""
        return os.path.basename(self.text.rstrip("/"))  # noqa: PTH119 (a URL is no path)

    @property
    def folder(self) -> str:
        """All before the name; two places with the same folder are siblings."""
        text = self.text.rstrip("/")
        return text[: len(text) - len(self.name)]

    @property
    def suffix(self) -> str:
        """The lower-case suffix that names the kind. See `suffix_of`."""
        return suffix_of(self.name)

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        name = self.name
        at = name.rfind(".")
        return name[:at] if 0 < at < len(name) - 1 else name

    def sibling(self, name: str) -> Place:
        """Another name in the same folder."""
        return Place(self.folder + name, self.scheme)

    def real(self) -> str:
        """One text for each place however it is named: links are followed."""
        return self.text if self.scheme else os.path.realpath(self.text)

    def is_pattern(self) -> bool:
        """Whether it is a glob rather than something that exists."""
        return any(c in self.text for c in "*?[") and not self.exists()

    def glob(self) -> list[Place]:
        """The places that it names as a pattern, in any order, as if every commit under way there were done."""
        return self.store.glob(self) if self.scheme else [Place.of(path) for path in _listed(self.text)]

    def absolute(self) -> Place:
        """The same place for those who stand in another folder."""
        return self if self.scheme else Place(os.path.abspath(self.text))  # noqa: PTH100 (links stay as they are)

    def identity(self) -> Identity | None:
        """What lies here now; None where nothing does. A file that is committed and not yet renamed counts."""
        if self.scheme:
            return self.store.identity(self)
        path = self.path
        while (found := locate(path)) is not None:
            try:
                return Identity.of_file(found.stat())
            except FileNotFoundError:
                if found is path:
                    break  # else a temporary file that was renamed at this very moment: look again
        return None

    def exists(self) -> bool:
        """Whether something lies here."""
        return self.identity() is not None if self.scheme else locate(self.path) is not None

    def is_file(self) -> bool:
        """Whether a plain file or an object lies here."""
        if self.scheme:
            return self.identity() is not None
        return "\0" not in self.text and is_file(self.path)

    def is_pipe(self) -> bool:
        """Whether it is a pipe, as ``<(command)`` names one: its bytes come once, and its name tells no kind."""
        return not self.scheme and self.path.is_fifo()

    def absent(self) -> bool:
        """Whether it is soon told that nothing lies here: asked a dozen times at every open."""
        return self.identity() is None if self.scheme else absent(self.text)

    def __str__(self) -> str:
        return self.text


def is_url(text: str) -> bool:
    """Whether a text names a place by a scheme, ``file://`` too."""
    return "://" in text and _URL.match(text) is not None


def suffix_of(name: str) -> str:
    """The lower-case suffix that names the kind; ``.crop_nb_N``, a cut download's mark, is passed over."""
    if "crop_nb_" not in name:
        _, dot, last = name.rpartition(".")
        return f".{last.lower()}" if dot else ""
    parts = name.split(".")
    while len(parts) > 1 and parts[-1].startswith("crop_nb_"):
        parts.pop()
    return f".{parts[-1].lower()}" if len(parts) > 1 else ""


def _listed(pattern: str) -> list[Path]:
    """The files that a pattern finds, as if every commit under way in their folders were done."""
    folder, name = os.path.split(pattern)
    found: list[Path] = []
    for wait in SETTLING:
        journal = read_journal(folder or ".")
        # Not Path.glob: that takes no absolute pattern.
        found = [path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file()]  # noqa: PTH207
        if journal is not None:
            made = (Path(folder) / new for new in journal.moves if fnmatch.fnmatchcase(new, name))
            found = list(dict.fromkeys([*found, *(path for path in made if is_file(path))]))
        for parent in dict.fromkeys(path.parent for path in found):
            gone = pending(parent)[1]
            found = [path for path in found if path.parent != parent or path.name not in gone]
        if found and journal == read_journal(folder or "."):
            break
        time.sleep(wait)  # a commit came between, or there is nothing
    return found


def _local_path(text: str, rest: str) -> str:
    host, slash, path = rest.partition("/")
    if not slash or host.lower() not in ("", "localhost"):
        raise InputError(f"{text}: a file:// URL names a file of this machine: file:///folder/name")
    return unquote(f"/{path}", errors="surrogateescape")
