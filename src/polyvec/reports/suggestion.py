"""Which encoding a quality report suggests: the smallest that holds the target, and the command that writes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polyvec.core.collection import Collection
from polyvec.core.places import Place
from polyvec.formats.cvc.encoding import CHUNK_ROWS
from polyvec.neighbors.inputs import Base
from polyvec.reports.tally import Entry
from polyvec.reports.trials import TRIALS

if TYPE_CHECKING:
    from polyvec.reports.quality import Quality

NOTABLE = 0.01  # by which an encoding that nothing writes must be smaller to be worth a word


def pick_smallest(entries: Sequence[Entry], k: int, target: float) -> str:
    """The smallest encoding whose recall at k is at least `target` with its whole interval; "raw" where none is."""
    able = []
    for entry in entries:
        found = entry.recall(k)
        if entry.failed is None and found is not None and (found.low >= target or (target == 1 and found.recall == 1)):
            able.append(entry)
    return min(able, key=_bytes).name if able else "raw"


def with_suggestion(
    found: Quality, target: float, original: Base, collection: Collection, column: str | None
) -> Quality:
    """The report with the smallest encoding that can be had and holds the target, and the command that writes it."""
    ks = [one.k for one in next((e.recalls for e in found.entries if e.recalls), ())]
    if not ks:  # nothing could be measured
        return replace(found, suggestion="raw", target=None)
    at = ks[len(ks) // 2]
    able = [e for e in found.entries if e.name not in TRIALS or (e.bytes < found.bytes and _writable(e.name, found))]
    name = pick_smallest(able, at, target)
    smallest = pick_smallest([e for e in found.entries if e.bytes < found.bytes], at, target)
    sizes = {"raw": found.bytes, **{e.name: e.bytes for e in found.entries}}
    return replace(
        found,
        suggestion=name,
        target=(at, target),
        command=_command(name, original, collection, column),
        smaller=smallest if sizes[smallest] <= sizes[name] * (1 - NOTABLE) else None,
        undecided=next(
            (e.name for e in sorted(able, key=_bytes) if e.bytes < sizes[name] and _reaches(e, at, target)), None
        ),
    )


def _bytes(entry: Entry) -> int:
    return entry.bytes


def _reaches(entry: Entry, k: int, target: float) -> bool:
    found = entry.recall(k)
    return entry.failed is None and found is not None and found.recall >= target


def _writable(name: str, found: Quality) -> bool:
    target = TRIALS[name].target
    return target is not None and not (target.finite and found.skipped_rows)


def _command(name: str, original: Base, collection: Collection, column: str | None) -> str | None:
    """The command line that writes an encoding of a file; None where there is no file or nothing to write."""
    trial = TRIALS.get(name)
    if trial is None or trial.target is None or not isinstance(original, (str, os.PathLike)):
        return None
    source = Place.of(original)
    stem = source.stem.replace("*", "").replace("?", "").rstrip("-_.") or "all"
    written = f"{stem}-{name}{trial.target.suffix}"  # beside a local file; here, where the file is far
    words = ["polyvec", "convert", str(original), str(source.sibling(written)) if source.local else written]
    words += ["--encoding", trial.target.encoding]
    if column is not None or len(collection.columns) > 1:
        words += ["--column", column or collection.main]
    if trial.target.suffix == ".cvc" and collection.format == "cvc":
        words += ["--option", f"chunk_rows={CHUNK_ROWS}"]  # else the source's own chunks stay
    return shlex.join(words)
