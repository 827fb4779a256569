"""Conversions that survive a kill: parts beside the target, a journal of what is done, and a hash of each part.

``OUT.parts/`` holds ``journal.json`` and one finished file a piece (a shard, or a gigabyte of one). The same command
run again takes the parts whose hash is right, makes the others, joins all of them into the target as any merge
does, and removes the folder. The result is the same as that of a run that nobody stopped.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyvec import __version__, formats
from polyvec.core.collection import Collection, concat
from polyvec.core.columns import Column
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.format import Format, Progress
from polyvec.core.journal import exists
from polyvec.core.locks import job_lock
from polyvec.core.places import Place
from polyvec.core.progress import onward, telling
from polyvec.core.shards import permit_files
from polyvec.core.sidecars import sidecar_places
from polyvec.core.space import demand_space
from polyvec.core.targets import refuse_inputs
from polyvec.verbs.parts import Parts, Piece, bytes_there
from polyvec.writing.options import Writing
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import estimate, resolve_target, write_collection

PIECE_BYTES = 1 << 30  # decoded: what a kill may cost
PACKED = ("bins", "npy", "vecs")  # formats whose parts are joined by copying bytes
PLAIN = (None, "raw", "float16", "bfloat16")  # encodings that look at one value at a time


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
    goal = _check_target(paths, target, writing)
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
        demand_space(target, needed - bytes_there(goal), refuse=writing.check_space)
        with (
            telling(writing.progress, whole.rows) as progress,
            Parts(goal, _fingerprint(paths, writing, _own_values(format, whole, writing), opening, pieces)) as parts,
        ):
            _make_missing(parts, pieces, stage, opening, progress, whole.rows)
            if _stamps(paths) != parts.job["inputs"]:
                parts.forget()
                raise InputError("an input changed while it was read; run this again when its writer is done")
            with _join(parts.paths(len(pieces)), chosen) as joined:
                joined.taken = whole.taken
                try:
                    receipt = write_collection(target, joined, _final(writing, stage), inputs=paths, against=chosen)
                except (InputError, LossyConversion):
                    parts.forget()  # the same command would fail again: these parts help nobody
                    raise
            kept = parts.kept
            parts.forget()
    said = [*receipt.notes, *notes]
    if kept:
        said.append(f"{kept} of {len(pieces)} parts were there already")
    codec = f"{_encoding_of(chosen)} -> {receipt.codec.partition(' -> ')[2]}"
    return replace(receipt, codec=codec, seconds=time.perf_counter() - started, notes=tuple(said))


def _check_target(paths: Sequence[str], target: str | os.PathLike[str], writing: Writing) -> Path:
    """The file that is written in the end, if it can be."""
    if os.fspath(target) == "-" or "-" in paths:
        raise InputError("standard input and output cannot be resumed; name files")
    goal = Path(os.path.realpath(target))
    refuse_inputs(goal, paths)
    if not writing.overwrite and exists(goal):
        raise InputError(f"{os.fspath(target)}: the output exists; use --force (overwrite=True) to replace it")
    if not goal.parent.is_dir():
        raise InputError(f"{os.fspath(target)}: the folder {goal.parent} does not exist; create it first")
    return goal


def _make_missing(
    parts: Parts,
    pieces: Sequence[Piece],
    stage: Writing,
    opening: dict[str, Any],
    progress: Progress | None,
    total: int,
) -> None:
    """Make the parts that no earlier run has made."""
    done = 0
    for number, piece in enumerate(pieces):
        if not parts.ready(number):
            parts.make(number, piece, stage, opening, onward(progress, done, total))
        done += piece.stop - piece.start
        if progress:
            progress(done, total)


def _final(writing: Writing, stage: Writing) -> Writing:
    """How the parts are joined: what was done to each of them is not done again."""
    encoding = writing.encoding if stage.format == "safetensors" else None
    return replace(writing, column=None, progress=None, encoding=encoding)


def _encoding_of(collection: Collection) -> str:
    vectors = collection.vectors
    return f"raw {vectors.dtype.name}" if vectors.encoding == "raw" else vectors.encoding


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


def _own_values(format: Format, source: Collection, writing: Writing) -> dict[str, Any]:
    """The formats' own options as values of their kinds: ``true`` of a command line is True of a program."""
    declared = {option.name: option for option in (*formats.find_format(source.format)[0].reading, *format.options)}
    return {
        name: declared[name].value(value) if name in declared else str(value)
        for name, value in sorted(writing.own.items())
        if value is not None
    }


def _fingerprint(
    paths: Sequence[str],
    writing: Writing,
    own: Mapping[str, Any],
    opening: Mapping[str, Any],
    pieces: Sequence[Piece],
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
            opening["format"],
            opening["lenient"],
            own,
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
