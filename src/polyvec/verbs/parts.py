"""Finished parts of a job beside its target: a folder, and a journal of what is done with the hash of each file."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyvec import formats
from polyvec.core.errors import FormatError
from polyvec.core.format import Progress
from polyvec.core.places import Place
from polyvec.core.sidecars import sidecar_places
from polyvec.core.sources import open_source
from polyvec.core.strict_json import parse_json
from polyvec.core.targets import open_sink
from polyvec.writing.options import Writing
from polyvec.writing.road import write_collection

JOURNAL = "journal.json"
LOCK = "lock"  # of earlier versions


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows ``start`` to ``stop`` of one input."""

    path: str
    start: int
    stop: int


def parts_folder(target: Path) -> Path:
    """Where the parts of a target lie."""
    return target.with_name(f"{target.name}.parts")


def bytes_there(target: Path) -> int:
    """The bytes of parts that an earlier run left."""
    folder = parts_folder(target)
    return sum(path.stat().st_size for path in folder.glob("part-*")) if folder.is_dir() else 0


class Parts:
    """The folder of parts and its journal."""

    def __init__(self, target: Path, job: dict[str, Any]) -> None:
        self.folder = parts_folder(target)
        self.job = job
        self.kept = 0
        self._done: dict[str, dict[str, str]] = {}  # part -> its files -> SHA-256

    def __enter__(self) -> Parts:
        self.folder.mkdir(exist_ok=True)
        self._done = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._done:
            self.sweep()

    def _read(self) -> dict[str, dict[str, str]]:
        """What the journal says is done; nothing where there is none, or it is another job's or damaged."""
        path = self.folder / JOURNAL
        try:
            journal = parse_json(path.read_bytes(), path=str(path))
        except (FileNotFoundError, FormatError):
            return {}
        same = isinstance(journal, dict) and journal.get("job") == json.loads(json.dumps(self.job))
        done = journal.get("parts") if same else None
        return done if isinstance(done, dict) else {}

    def ready(self, number: int) -> bool:
        """Whether a part is there, whole: every file of it has the hash that the journal remembers."""
        files = self._done.get(str(number))
        if not isinstance(files, dict) or not files:
            return False
        for name, digest in files.items():
            path = self.folder / name
            if Path(name).name != name or not path.is_file() or _sha256(path) != digest:
                del self._done[str(number)]
                return False
        self.kept += 1
        return True

    def make(
        self, number: int, piece: Piece, stage: Writing, options: dict[str, Any], progress: Progress | None
    ) -> None:
        """Write a part, then say so in the journal."""
        path = self._path(number, stage)
        with formats.open(piece.path, **options) as one:
            whole = one if stage.column is None else one.select(stage.column)
            all_rows = (piece.start, piece.stop) == (0, whole.rows) and not whole.vectors.derived
            part = whole if all_rows else whole.slice(piece.start, piece.stop)
            receipt = write_collection(path, part, replace(stage, column=None, progress=progress), inputs=[piece.path])
        assert receipt.sha256 is not None
        files = {
            path.name: receipt.sha256,
            **{beside.name: _sha256(beside.path) for beside in sidecar_places(Place.of(path))},
        }
        self._done[str(number)] = files
        with open_sink(self.folder / JOURNAL, working=True) as sink:
            sink.write(json.dumps({"job": self.job, "parts": self._done}, indent=1).encode("utf-8"))

    def _path(self, number: int, stage: Writing) -> Path:
        found, variant = formats.find_format(stage.format or "safetensors")
        suffix = f".{variant}" if f".{variant}" in found.suffixes else found.suffixes[0]
        return self.folder / f"part-{number:05d}{suffix}"

    def paths(self, count: int) -> list[Path]:
        """The main file of each part, in order."""
        return [self.folder / next(iter(self._done[str(number)])) for number in range(count)]

    def forget(self) -> None:
        """All is done: the parts may go."""
        self._done = {}

    def sweep(self) -> None:
        """Remove the folder and what runs of ours put there."""
        for path in list(self.folder.iterdir()):
            ours = path.name in (JOURNAL, LOCK) or path.name.startswith(("part-", ".part-", f".{JOURNAL}."))
            if ours and path.is_file():
                path.unlink()
        with contextlib.suppress(OSError):  # somebody keeps other files there
            self.folder.rmdir()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_source(path) as source:
        at = 0
        while piece := source.read_at(at, 1 << 20):
            digest.update(piece)
            at += len(piece)
    return digest.hexdigest()
