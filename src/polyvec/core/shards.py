"""Shards: one collection in many files, told by their names.

Patterns: ``dataset_000.fbin``, ``shard-00000-of-00100.fbin``, ``vectors.part00.fbin``; globs name any others.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyvec.core.errors import InputError
from polyvec.core.journal import exists, is_file, pending, read_journal

SETTLING = (0.0, 0.002, 0.005, 0.01)  # seconds between attempts at a folder that is being written to
SPARE_FILES = 64  # for libraries, temporary files and the like

_OF = re.compile(r"^(?P<stem>.*?)[-_.](?P<number>\d+)-of-(?P<total>\d+)(?P<rest>\.[^.]+)?$")
_PART = re.compile(r"^(?P<stem>.*?)[-_.]?part[-_.]?(?P<number>\d+)(?P<rest>\.[^.]+)?$")
_PLAIN = re.compile(r"^(?P<stem>.*?)[-_.]?(?P<number>\d+)(?P<rest>\.[^.]+)?$")


@dataclass(frozen=True, slots=True)
class ShardName:
    """A shard's place, read from its file name."""

    stem: str
    number: int
    total: int | None
    rest: str


@dataclass(frozen=True, slots=True)
class ShardSet:
    """Files in shard order, and what is odd about their numbers."""

    paths: tuple[Path, ...]
    problems: tuple[str, ...]


def permit_files(count: int, *, advice: str = "merge them in several steps") -> None:
    """Let this process open ``count`` more files at once: the soft limit is often 1024, and shards can be more.

    `InputError` where the system's own limit is lower.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        used = SPARE_FILES  # not Linux: a guess
    needed = used + count + SPARE_FILES
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise InputError(f"{count} files at once are more than this system allows ({hard}); {advice}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def parse_shard_name(name: str) -> ShardName | None:
    """The parts of a shard's name; None where it holds no number.

    >>> parse_shard_name("shard-00002-of-00100.fbin")
    ShardName(stem='shard', number=2, total=100, rest='.fbin')
    """
    for pattern in (_OF, _PART, _PLAIN):
        if match := pattern.match(name):
            groups = match.groupdict()
            total = int(groups["total"]) if groups.get("total") else None
            return ShardName(groups["stem"], int(groups["number"]), total, groups["rest"] or "")
    return None


def pattern_of(paths: Sequence[str]) -> str:
    """A pattern that names all of these paths: how they all begin, a star, and how they all end."""
    start = os.path.commonprefix(paths)  # noqa: RUF071 (letters, not folders)
    end = os.path.commonprefix([path[len(start) :][::-1] for path in paths])[::-1]  # noqa: RUF071
    return f"{start}*{end}"


def is_pattern(text: str) -> bool:
    """Whether a path is a glob rather than a file that exists."""
    return any(c in text for c in "*?[") and not exists(text)


def expand(inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Paths named by paths and globs, each glob in shard order; `InputError` when a glob finds nothing."""
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    paths: list[Path] = []
    for item in inputs:
        text = os.fspath(item)
        if not is_pattern(text):
            paths.append(Path(text))
            continue
        found = _listed(text)
        if not found:
            raise InputError(f"{text}: no file matches this pattern")
        paths.extend(sorted(found, key=_order))
    return paths


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
        for place in dict.fromkeys(path.parent for path in found):
            gone = pending(place)[1]
            found = [path for path in found if path.parent != place or path.name not in gone]
        if found and journal == read_journal(folder or "."):
            break
        time.sleep(wait)  # a commit came between, or there is nothing
    return found


def _order(path: Path) -> tuple[str, str, int, str]:
    name = parse_shard_name(path.name)
    return (
        (str(path.parent), name.stem, name.number, path.name) if name else (str(path.parent), path.name, -1, path.name)
    )


def arrange(paths: Sequence[Path]) -> ShardSet:
    """Shard order and problems (gaps, duplicates, a wrong total) of files that are meant to be one collection."""
    problems: list[str] = []
    resolved = [os.path.realpath(path) for path in paths]
    given = Counter(resolved)
    for again in sorted({str(p) for p, r in zip(paths, resolved) if given[r] > 1}):
        problems.append(f"{again} is given more than once")
    groups: dict[tuple[str, str], list[ShardName]] = {}
    for path in paths:
        if name := parse_shard_name(path.name):
            groups.setdefault((name.stem, name.rest), []).append(name)
    for (stem, rest), group in groups.items():
        numbers = sorted(name.number for name in group)
        label = f"{stem}…{rest}"
        totals = {name.total for name in group if name.total is not None}
        if len(totals) > 1:
            problems.append(f"{label}: shards disagree on their total: {sorted(totals)}")
        if len(group) < 2 and not totals:
            continue  # one numbered file alone is no series
        last = max(totals) - 1 if totals else numbers[-1]
        first = 0 if totals or numbers[0] == 0 else numbers[0]
        present = set(numbers)
        missing = [n for n in range(first, min(last, first + 1_000_000) + 1) if n not in present]
        if missing:
            shown = ", ".join(map(str, missing[:8])) + ("…" if len(missing) > 8 else "")
            problems.append(f"{label}: {len(missing)} of {last - first + 1} shards are missing: {shown}")
        twice = sorted(n for n, count in Counter(numbers).items() if count > 1)
        if twice:
            problems.append(f"{label}: shard numbers given twice: {', '.join(map(str, twice[:8]))}")
    return ShardSet(tuple(paths), tuple(problems))
