"""Conversions that survive a kill: parts beside the target, a journal of what is done, and a hash of each part.

``OUT.parts/`` holds ``journal.json`` and one finished file a piece (a shard, or a gigabyte of one). The same command
run again takes the parts whose hash is right, makes the others, joins all of them into the target as any merge
does, and removes the folder. The result is the same as that of a run that nobody stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyvec import __version__, formats
from polyvec.core.collection import Collection, concat
from polyvec.core.columns import Column
from polyvec.core.errors import FormatError, InputError, LossyConversion
from polyvec.core.format import Format, Progress
from polyvec.core.journal import exists
from polyvec.core.locks import job_lock
from polyvec.core.places import Place
from polyvec.core.progress import onward, telling
from polyvec.core.shards import permit_files
from polyvec.core.sidecars import sidecar_places
from polyvec.core.sources import open_source
from polyvec.core.space import demand_space
from polyvec.core.strict_json import parse_json
from polyvec.core.targets import open_sink, refuse_inputs
from polyvec.writing.options import Writing
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import estimate, resolve_target, write_collection

PIECE_BYTES = 1 << 30  # decoded: what a kill may cost
PACKED = ("bins", "npy", "vecs")  # formats whose parts are joined by copying bytes
PLAIN = (None, "raw", "float16", "bfloat16")  # encodings that look at one value at a time
JOURNAL = "journal.json"
LOCK = "lock"  # of earlier versions


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows ``start`` to ``stop`` of one input."""

    path: str
    start: int
    stop: int


def run_resumable(
    paths: Sequence[str],
    target: str | os.PathLike[str],
    writing: Writing,
    *,
    source_format: str | None = None,
    lenient: bool = False,
    notes: Sequence[str] = (),
) -> Receipt:
    """Convert or merge ``paths`` into ``target``, going on where an earlier run of the same job stopped."""
    started = time.perf_counter()
    if os.fspath(target) == "-" or "-" in paths:
        raise InputError("standard input and output cannot be resumed; name files")
    goal = Path(os.path.realpath(target))
    refuse_inputs(goal, paths)
    if not writing.overwrite and exists(goal):
        raise InputError(f"{os.fspath(target)}: the output exists; use --force (overwrite=True) to replace it")
    if not goal.parent.is_dir():
        raise InputError(f"{os.fspath(target)}: the folder {goal.parent} does not exist; create it first")
    opening = {"format": source_format, "lenient": lenient, "offered": writing.own}
    with job_lock(goal, label=os.fspath(target)), formats.open_many(list(paths), **opening) as whole:
        chosen = whole if writing.column is None else _select(whole, writing.column)
        _refuse_unequal(chosen)
        format, variant = resolve_target(target, chosen, writing.format)
        if writing.dry_run:
            planned = write_collection(target, whole, writing, inputs=paths)
            return replace(planned, notes=(*planned.notes, *notes))
        pieces = _cut(paths, opening, writing.column)
        stage = _stage(chosen, format, variant, writing)
        needed = estimate(goal, chosen, writing) + estimate(goal, chosen, replace(stage, sidecar=writing.sidecar))
        demand_space(target, needed - _there(goal), refuse=writing.check_space)
        with (
            telling(writing.progress, whole.rows) as progress,
            _Parts(goal, _fingerprint(paths, writing, source_format, lenient, pieces)) as parts,
        ):
            done = 0
            for number, piece in enumerate(pieces):
                rows = piece.stop - piece.start
                if not parts.ready(number):
                    parts.make(number, piece, stage, opening, onward(progress, done, whole.rows))
                done += rows
                if progress:
                    progress(done, whole.rows)
            if _stamps(paths) != parts.job["inputs"]:
                parts.forget()
                raise InputError("an input changed while it was read; run this again when its writer is done")
            with _join(parts.paths(len(pieces)), chosen) as joined:
                joined.taken = whole.taken
                final = replace(
                    writing,
                    column=None,
                    progress=None,
                    format=writing.format,
                    encoding=writing.encoding if stage.format == "safetensors" else None,
                )
                try:
                    receipt = write_collection(target, joined, final, inputs=paths, against=chosen)
                except (InputError, LossyConversion):
                    parts.forget()  # the same command would fail again: these parts help nobody
                    raise
            kept = parts.kept
            parts.forget()
    codec = receipt.codec.partition(" -> ")
    before = f"raw {chosen.vectors.dtype.name}" if chosen.vectors.encoding == "raw" else chosen.vectors.encoding
    said = [*notes, *(f"{kept} of {len(pieces)} parts were there already" for _ in range(min(1, kept)))]
    return replace(
        receipt, codec=f"{before} -> {codec[2]}", seconds=time.perf_counter() - started, notes=(*receipt.notes, *said)
    )


def _select(whole: Collection, column: str) -> Collection:
    try:
        return whole.select(column)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None


def _refuse_unequal(collection: Collection) -> None:
    others = [
        name for name, column in collection.columns.items() if column.rows != collection.rows and not column.derived
    ]
    if others:
        raise InputError(
            f"--resume works row by row, and {', '.join(others)} have other rows than {collection.main}; "
            f"choose one with --column (column=), for example --column {collection.main}"
        )


def _stage(collection: Collection, format: Format, variant: str, writing: Writing) -> Writing:
    """How parts are written: as the target where joining is copying, or keeps an encoding; else raw, without loss."""
    encoded = any(column.encoding != "raw" for column in collection.columns.values())
    as_target = writing.encoding is None if encoded else format.name in PACKED and writing.encoding in PLAIN
    if as_target:
        return replace(
            writing,
            format=variant or format.name,
            overwrite=True,
            sidecar=True,
            sha256=True,
            measure=False,
            dry_run=False,
            progress=None,
            working=True,
        )
    return Writing(
        encoding=None,
        format="safetensors",
        column=writing.column,
        durable=writing.durable,
        sha256=True,
        measure=False,
        working=True,
    )


def _cut(paths: Sequence[str], opening: Mapping[str, Any], column: str | None) -> list[Piece]:
    pieces = []
    for path in paths:
        with formats.open(path, **opening) as one:
            main = one.vectors if column is None else one[column]
            step = max(1, PIECE_BYTES // max(1, main.nbytes // max(1, main.rows)))
            pieces += [Piece(path, at, min(at + step, main.rows)) for at in range(0, main.rows, step)]
    return pieces or [Piece(paths[0], 0, 0)]


def _fingerprint(
    paths: Sequence[str], writing: Writing, source_format: str | None, lenient: bool, pieces: Sequence[Piece]
) -> dict[str, Any]:
    """What must be the same for parts of an earlier run to be of use: the inputs and all that shapes the bytes."""
    return {
        "polyvec": __version__,
        "inputs": _stamps(paths),
        "options": [
            writing.encoding,
            writing.format,
            writing.column,
            writing.chunk_rows,
            source_format,
            lenient,
            {key: str(value) for key, value in sorted(writing.own.items())},
        ],
        "pieces": [[paths.index(piece.path), piece.start, piece.stop] for piece in pieces],
    }


def _stamps(paths: Sequence[str]) -> list[list[Any]]:
    """The inputs, and what lies beside them, as they are now."""
    named = [Place.of(path) for path in paths]
    files = [(place.real(), place.identity()) for one in named for place in (one, *sidecar_places(one))]
    return [[name, *(found.to_json() if found is not None else ())] for name, found in files]


@contextlib.contextmanager
def _join(paths: Sequence[Path], like: Collection) -> Iterator[Collection]:
    """The parts as one collection, with the columns called and chosen as in the source."""
    opened: list[Collection] = []
    permit_files(len(paths) * (1 + len(sidecar_places(Place.of(paths[0])))))
    try:
        for path in paths:
            opened.append(formats.open(path))
            opened[-1].notes.clear()
        whole = concat(opened)
        names = {name: (like.main if len(whole.columns) == 1 else name) for name in whole.columns}
        columns: dict[str, Column] = {names[name]: column for name, column in whole.columns.items()}
        for name, column in columns.items():
            column.name = name
            column.lengths = name in like.columns and like[name].lengths
        # What all rows share was copied into every part; the source's own words say it once.
        yield Collection(
            columns,
            main=like.main,
            vocab=whole.vocab,
            records=whole.records,
            ids=whole.ids,
            metadata=like.metadata,
            notes=like.notes,
            format=like.format,
            path=like.path,
        )
    finally:
        for collection in opened:
            collection.close()


def _parts_folder(target: Path) -> Path:
    return target.with_name(f"{target.name}.parts")


def _there(target: Path) -> int:
    """The bytes of parts that an earlier run left."""
    folder = _parts_folder(target)
    return sum(path.stat().st_size for path in folder.glob("part-*")) if folder.is_dir() else 0


class _Parts:
    """The folder of parts and its journal."""

    def __init__(self, target: Path, job: dict[str, Any]) -> None:
        self.folder = _parts_folder(target)
        self.job = job
        self.kept = 0
        self._done: dict[str, dict[str, str]] = {}  # part -> its files -> SHA-256

    def __enter__(self) -> _Parts:
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
