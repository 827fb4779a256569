"""split: one file into numbered shards, and sample: some of its rows."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from polyvec import formats
from polyvec.core.arguments import check_flags, check_paths, check_targets, check_texts, check_whole, shown, whole
from polyvec.core.errors import InputError
from polyvec.core.journal import pending
from polyvec.core.progress import onward, telling
from polyvec.core.shards import permit_files
from polyvec.core.sidecars import COMPANIONS
from polyvec.core.space import demand_space
from polyvec.core.targets import Together, check_target, refuse_inputs
from polyvec.writing.inputs import inputs_of
from polyvec.writing.options import SamplingOptions, SplittingOptions, gather, shows_options
from polyvec.writing.receipts import Receipt
from polyvec.writing.road import estimate, write_collection

FILES_A_SHARD = 6  # itself and what may lie beside it; all are open until they appear


@shows_options(SplittingOptions)
def split(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    rows: int | None = None,
    parts: int | None = None,
    source_format: str | None = None,
    lenient: bool = False,
    **options: Unpack[SplittingOptions],
) -> list[Receipt]:
    """Split a file into shards of ``rows`` rows, or into ``parts`` of nearly equal size.

    ``target`` names them: ``out.fbin`` gives ``out-00000-of-00003.fbin`` and so on; a ``{}`` in it is replaced by the
    number. All shards appear at one moment, in place of those of an earlier split of the same name. Takes the options
    of `convert`.
    """
    check_paths(source=source)
    check_targets(target=target)
    check_texts(source_format=source_format)
    check_flags(lenient=lenient)
    check_whole(1, rows=rows, parts=parts)
    writing = gather(options)
    if (rows is None) == (parts is None):
        raise InputError("give either rows or parts")
    if os.fspath(target) == "-":
        raise InputError("standard output takes one file, not shards; name a file")
    with formats.open(source, format=source_format, lenient=lenient, offered=writing.own) as collection:
        total = collection.rows
        if rows is not None:
            edges = [*range(0, total, rows), total] if total else [0, 0]
        else:
            assert parts is not None
            if parts > max(1, total):
                raise InputError(f"{total} rows cannot be split into {parts} parts")
            edges = [round(total * i / parts) for i in range(parts + 1)]
        pieces = list(pairwise(edges))
        names = [shard_path(target, number, len(pieces)) for number in range(len(pieces))]
        inputs = inputs_of(source)
        for name in names:  # all before the first is written
            check_target(name, inputs=inputs, overwrite=writing.overwrite)
        _, kept = earlier_shards(target, len(pieces))

        def earlier() -> list[Path]:
            found, _ = earlier_shards(target, len(pieces))
            for name in found:
                refuse_inputs(name, inputs)
                if not writing.overwrite:
                    raise InputError(
                        f"{name}: a shard of an earlier split of this name is there; "
                        "use --force (overwrite=True) to replace it"
                    )
            return [path.with_name(path.name + ending) for path in found for ending in ("", *COMPANIONS)]

        earlier()
        demand_space(names[0], estimate(names[0], collection, writing), refuse=writing.check_space)
        permit_files(len(pieces) * FILES_A_SHARD, advice="split into fewer parts")
        receipts: list[Receipt] = []
        with Together() as files, telling(writing.progress, total) as tell:
            files.discard(earlier)
            for name, (start, stop) in zip(names, pieces):
                part = collection.slice(start, stop)
                step = replace(writing, progress=onward(tell, start, total), together=files)
                receipts.append(write_collection(name, part, step, inputs=inputs))
        if kept:
            more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
            note = (
                f"{kept[0]}{more}, of an earlier and longer split as it seems, stayed; remove what is not of this one"
            )
            receipts[-1] = replace(receipts[-1], notes=(*receipts[-1].notes, note))
        return receipts


def earlier_shards(target: str | os.PathLike[str], total: int) -> tuple[list[Path], list[Path]]:
    """Shards of an earlier split that are none of the new ones: those that must go, and those that may be others' files.

    A name that says of how many it is one belongs to another set; one that has a number alone may be anything.
    """
    path = Path(target)
    folder = path.parent
    whole = re.compile(rf"{re.escape(path.stem)}-\d{{5,}}-of-(\d{{5,}}){re.escape(path.suffix)}")
    numbered = re.compile(r"(\d{5,})".join(re.escape(piece) for piece in path.name.split("{}")))
    added, gone = pending(folder)
    names = sorted(({entry.name for entry in os.scandir(folder)} | added) - gone) if folder.is_dir() else []
    if "{}" in path.name:
        numbers = ((name, match) for name in names if (match := numbered.fullmatch(name)))
        return [], [folder / name for name, match in numbers if int(match[1]) >= total]
    shards = ((name, match) for name in names if (match := whole.fullmatch(name)))
    return [folder / name for name, match in shards if int(match[1]) != total], []


def shard_path(target: str | os.PathLike[str], number: int, total: int) -> Path:
    """The name of one shard."""
    path = Path(target)
    if "{}" in path.name:
        return path.with_name(path.name.replace("{}", f"{number:05d}"))
    return path.with_name(f"{path.stem}-{number:05d}-of-{total:05d}{path.suffix}")


def choose_rows(
    total: int,
    *,
    head: int | None = None,
    range: tuple[int, int] | None = None,
    random: int | None = None,
    stride: int | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> Any:
    """Rows of a sample, as a range or a sorted array: the first, a range, random ones, every ``stride``-th."""
    given = [n for n, v in (("head", head), ("range", range), ("random", random), ("stride", stride)) if v is not None]
    if len(given) != 1:
        raise InputError(
            "choose one of head, range, random or stride" + (f", not {' and '.join(given)}" if given else "")
        )
    check_whole(0, head=head, random=random, seed=seed, limit=limit)
    check_whole(1, stride=stride)
    if head is not None:
        return _range(0, min(head, total))
    if range is not None:
        start, stop = _pair(range)
        if not 0 <= start <= stop:
            raise InputError(f"range must be start <= stop from 0 on, not {start}:{stop}")
        if total <= start < stop:
            raise InputError(f"range {start}:{stop} is beyond the end; there are {total} rows, from 0 on")
        return _range(min(start, total), min(stop, total))
    if random is not None:
        if random > total:
            raise InputError(f"cannot choose {random} rows of {total}; ask for at most {total}")
        return _random_rows(total, random, seed)
    assert stride is not None
    rows = _range(0, total, stride)
    return rows if limit is None else rows[:limit]


_range = range  # `range` is also a parameter above


def _pair(given: Any) -> tuple[int, int]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(f"range must be a pair, start and stop, not {shown(given)}")
    return whole("range's start", given[0]), whole("range's stop", given[1])


def _random_rows(total: int, count: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    if count * 4 > total:
        return np.sort(generator.permutation(total)[:count])
    rows = np.unique(generator.integers(0, total, count))
    while len(rows) < count:  # the few that fell on the same row are drawn again
        rows = np.unique(np.concatenate([rows, generator.integers(0, total, count - len(rows))]))
    return rows


@shows_options(SamplingOptions)
def sample(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    head: int | None = None,
    range: tuple[int, int] | None = None,
    random: int | None = None,
    stride: int | None = None,
    seed: int = 0,
    limit: int | None = None,
    source_format: str | None = None,
    lenient: bool = False,
    **options: Unpack[SamplingOptions],
) -> Receipt:
    """Write some rows of a file: the first ``head``, a ``range`` (start, stop), ``random`` ones by ``seed``, or every
    ``stride``-th (at most ``limit``). Takes the options of `convert`.
    """
    check_paths(source=source)
    check_targets(target=target)
    check_texts(source_format=source_format)
    check_flags(lenient=lenient)
    writing = gather(options)
    with formats.open(source, format=source_format, lenient=lenient, offered=writing.own) as collection:
        rows = choose_rows(
            collection.rows, head=head, range=range, random=random, stride=stride, seed=seed, limit=limit
        )
        contiguous = isinstance(rows, _range) and rows.step == 1
        part = collection.slice(rows.start, rows.stop) if contiguous else collection.take(rows)
        return write_collection(target, part, writing, inputs=inputs_of(source))
