"""Digests beside a file: ``FILE.sha256``, in the format of coreutils, so that ``sha256sum -c FILE.sha256`` checks it too.

::

    64 hex digits, two spaces, the name of a file in the same folder     the file itself, then its sidecars

A name with a backslash or a line break is escaped, and its line starts with a backslash. The ``SHA256 (name) = …`` lines
of BSD, a ``*`` before the name and a digest without any name are read as well. Whoever replaces the file removes this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from polyvec.core.errors import Corrupt
from polyvec.core.hashing import DIGEST
from polyvec.core.sidecars import COMPANIONS
from polyvec.core.sources import Source
from polyvec.core.targets import open_sink

COVERED = (*(ending for ending in COMPANIONS if ending != DIGEST), ".shape.json")  # sidecars that a digest speaks of
MAX_BYTES = 1 << 20
_ESCAPED = {"n": "\n", "r": "\r"}
_LINE = re.compile(r"(?P<escaped>\\)?(?P<hex>[0-9a-fA-F]{64}) [ *](?P<name>.+)")
_BSD = re.compile(r"(?P<escaped>\\)?SHA256 \((?P<name>.+)\) = (?P<hex>[0-9a-fA-F]{64})")
_BARE = re.compile(r"(?P<hex>[0-9a-fA-F]{64})")


def sidecars_of(source: Source) -> list[str]:
    """The names of the files beside this one that belong to it."""
    found = []
    for ending in COVERED:
        beside = source.sibling(source.name + ending)
        if beside is not None:
            found.append(source.name + ending)
            beside.close()
    return found


def read_digests(source: Source) -> dict[str, str] | None:
    """The digests that lie beside a file: name -> hex, in this folder; None where there are none."""
    beside = source.sibling(source.name + DIGEST)
    if beside is None:
        return None
    with beside:
        text = beside.read_at(0, MAX_BYTES).decode("utf-8", "surrogateescape")
        found: dict[str, str] = {}
        for number, line in enumerate(text.split("\n"), 1):
            line = line.rstrip("\r")
            if not line or line.startswith("#"):
                continue
            match = _LINE.fullmatch(line) or _BSD.fullmatch(line) or _BARE.fullmatch(line.strip())
            if match is None:
                raise Corrupt(
                    "this is no list of SHA-256 digests",
                    path=beside.label,
                    field=f"line {number}",
                    expected="64 hex digits, two spaces and a name",
                    found=repr(line[:60]),
                    remedy="remove it, and write it again with polyvec verify --write-digest",
                )
            parts = match.groupdict()
            name = parts.get("name") or source.name
            if parts.get("escaped"):
                name = re.sub(r"\\(.)", lambda letter: _ESCAPED.get(letter[1], letter[1]), name)
            found[Path(name).name] = match["hex"].lower()
        return found


def write_digests(path: Path, digests: Mapping[str, str]) -> Path:
    """Write digests, name -> hex, beside a file; returns their path."""
    target = path.with_name(path.name + DIGEST)
    lines = []
    for name, digest in digests.items():
        plain = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        mark = "\\" if plain != name else ""
        lines.append(f"{mark}{digest}  {plain}\n")
    with open_sink(target) as sink:
        sink.write("".join(lines).encode("utf-8", "surrogateescape"))
    return target
