"""What ties sidecars to their file: ``OUT.sidecars.json``, written at the same moment as both.

It holds the size and a fingerprint of the file, and the size and SHA-256 of each sidecar. Opening compares sizes and
the fingerprint, which reads a bounded part of the file however long it is; verifying hashes the sidecars. So a file
that somebody puts in place of another does not get the other's words, ids and records, and none is lost unnoticed. Sidecars without such a file
beside them (made by hand, or by earlier versions) are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyvec.core.errors import Corrupt
from polyvec.core.hashing import HASH_STEP
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json

TIE = ".sidecars.json"
VERSION = 1
MAX_BYTES = 1 << 20
WHOLE_BYTES = 256 << 10  # up to here the fingerprint is of every byte
END_BYTES = 64 << 10  # else of both ends
PAGES = 32  # and of these, spread evenly
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Tie:
    """What a file and its sidecars were when they were written."""

    size: int
    fingerprint: str
    sidecars: Mapping[str, tuple[int, str]]  # ending -> size and SHA-256

    def to_bytes(self) -> bytes:
        """The tie as a file."""
        told = {
            "polyvec-sidecars": VERSION,
            "file": {"bytes": self.size, "fingerprint": self.fingerprint},
            "sidecars": {ending: {"bytes": size, "sha256": digest} for ending, (size, digest) in self.sidecars.items()},
        }
        return json.dumps(told, indent=1).encode() + b"\n"


def fingerprint(read: Callable[[int, int], bytes], size: int) -> str:
    """A hash of a file's size, its ends and pages between them; of all its bytes where it is small."""
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    if size <= WHOLE_BYTES:
        digest.update(read(0, size))
        return digest.hexdigest()
    digest.update(read(0, END_BYTES))
    for at in np.linspace(END_BYTES, size - END_BYTES - PAGE_BYTES, PAGES).astype(np.int64):
        digest.update(read(int(at) // PAGE_BYTES * PAGE_BYTES, PAGE_BYTES))
    digest.update(read(size - END_BYTES, END_BYTES))
    return digest.hexdigest()


def write_tie(sink: Sink, sidecars: Mapping[str, tuple[int, str]]) -> None:
    """Tie sidecars, by ending, to the file that a sink has finished; committed with them."""
    found = fingerprint(sink.read_at, sink.size)
    sink.sibling(sink.name + TIE).write(Tie(sink.size, found, sidecars).to_bytes())


def read_tie(source: Source) -> Tie | None:
    """The tie beside a file; None where there is none."""
    beside = source.sibling(source.name + TIE)
    if beside is None:
        return None
    with beside:
        told = parse_json(beside.read_at(0, MAX_BYTES), path=beside.label, field="sidecars")
        try:
            if told["polyvec-sidecars"] != VERSION:
                raise ValueError
            sidecars = {
                _text(ending): (_count(about["bytes"]), _text(about["sha256"]))
                for ending, about in told["sidecars"].items()
            }
            return Tie(_count(told["file"]["bytes"]), _text(told["file"]["fingerprint"]), sidecars)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Corrupt(
                "this does not say which sidecars belong to which file",
                path=beside.label,
                remedy="remove it to take the sidecars as they are, or write the file again",
            ) from None


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def check_file(source: Source, tie: Tie) -> None:
    """`Corrupt` where the file is not the one that its sidecars were written with."""
    named = ", ".join(source.name + ending for ending in tie.sidecars)
    remedy = (
        f"put back the file they belong to, remove {named} and {source.name + TIE}, or, where you know that they fit, "
        f"remove {source.name + TIE} alone"
    )
    if source.size != tie.size:
        raise Corrupt(
            f"the file is not the one that {named} was written with",
            path=source.label,
            field="sidecars",
            expected=f"{tie.size} bytes",
            found=f"{source.size} bytes",
            remedy=remedy,
        )
    if fingerprint(source.read_at, source.size) != tie.fingerprint:
        raise Corrupt(
            f"the file is not the one that {named} was written with: it is as long, and its bytes differ",
            path=source.label,
            field="sidecars",
            remedy=remedy,
        )


def check_sidecar(beside: Source, ending: str, tie: Tie) -> None:
    """`Corrupt` where a sidecar has another size than the one that was written."""
    told = tie.sidecars.get(ending)
    if told is not None and beside.size != told[0]:
        raise Corrupt(
            f"this sidecar is not the one that was written with {beside.name.removesuffix(ending)}",
            path=beside.label,
            expected=f"{told[0]} bytes",
            found=f"{beside.size} bytes",
            remedy=_rebuild(beside.name, ending),
        )


def check_all_there(source: Source, tie: Tie, found: Collection[str]) -> None:
    """`Corrupt` where a sidecar that was written, by ending, is neither found nor beside the file."""
    for ending, (size, _) in tie.sidecars.items():
        if ending in found:
            continue
        beside = source.sibling(source.name + ending)  # one of a kind that this version does not read
        if beside is None:
            raise missing_sidecar(source, ending, size)
        beside.close()


def missing_sidecar(source: Source, ending: str, size: int) -> Corrupt:
    """What to say where a sidecar is not there: the same on opening and on verifying."""
    return Corrupt(
        f"its sidecar {source.name + ending} is missing",
        path=source.label,
        field="sidecars",
        expected=f"{size} bytes",
        remedy=f"put it back, or remove {source.name + TIE} to go on without it",
    )


def check_digests(source: Source) -> Iterator[Corrupt]:
    """Every sidecar that is missing or whose bytes are not those that were written."""
    tie = read_tie(source)
    if tie is None:
        return
    for ending, (size, digest) in tie.sidecars.items():
        name = source.name + ending
        beside = source.sibling(name)
        if beside is None:
            yield missing_sidecar(source, ending, size)
            continue
        with beside:
            if (found := _sha256(beside)) != digest:
                yield Corrupt(
                    f"this sidecar is not the one that was written with {source.name}",
                    path=beside.label,
                    field="sha256",
                    expected=digest,
                    found=found,
                    remedy=_rebuild(name, ending),
                )


def _rebuild(name: str, ending: str) -> str:
    tie = name.removesuffix(ending) + TIE
    return f"put back the one that was written, or remove {tie} to take the sidecars as they are"


def _sha256(source: Source) -> str:
    digest = hashlib.sha256()
    for at in range(0, source.size, HASH_STEP):
        digest.update(source.read_at(at, HASH_STEP))
    return digest.hexdigest()
