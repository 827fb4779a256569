"""Shards: one collection in many files, told by their names.

Patterns: ``dataset_000.fbin``, ``shard-00000-of-00100.fbin``, ``vectors.part00.fbin``; globs name any others.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyvec.core.errors import InputError
from polyvec.core.places import Place

Named = str | os.PathLike[str] | Place

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

    places: tuple[Place, ...]
    problems: tuple[str, ...]


def permit_files(count: int, *, advice: str = "merge them in several steps") -> None:
    """Let this process open ``count`` more files at once: the soft limit is often 1024, and shards can be more.

    This is the one thing of the process that polyvec changes: raised when so many are needed, and left so, since by the
    time they are closed others may hold descriptors beyond the old limit.

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


def expand(inputs: Named | Iterable[Named]) -> list[Place]:
    """Places named by paths, URLs and globs, each glob in shard order; `InputError` when a glob finds nothing."""
    places: list[Place] = []
    for item in [inputs] if isinstance(inputs, (str, os.PathLike, Place)) else inputs:
        named = Place.of(item)
        if not named.is_pattern():
            places.append(named)
            continue
        found = named.glob()
        if not found:
            raise InputError(f"{named}: no file matches this pattern")
        places.extend(sorted(found, key=_order))
    return places


def _order(place: Place) -> tuple[str, str, int, str]:
    name, folder = parse_shard_name(place.name), place.folder[:-1] or "."  # with its slash "a" would come after "a-b"
    return (folder, name.stem, name.number, place.name) if name else (folder, place.name, -1, place.name)


def arrange(places: Sequence[Place]) -> ShardSet:
    """Shard order and problems (gaps, duplicates, a wrong total) of files that are meant to be one collection."""
    problems: list[str] = []
    real = [place.real() for place in places]
    given = Counter(real)
    for again in sorted({str(p) for p, r in zip(places, real) if given[r] > 1}):
        problems.append(f"{again} is given more than once")
    groups: dict[tuple[str, str], list[ShardName]] = {}
    for place in places:
        if name := parse_shard_name(place.name):
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
    return ShardSet(tuple(places), tuple(problems))
