"""Bytes to Collection and back, one format a file. Dropping a module with a ``FORMAT`` into this folder adds it."""

from __future__ import annotations

import os
import pkgutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from polyvec.core.collection import Collection, concat
from polyvec.core.errors import (
    AmbiguousFormat,
    FormatError,
    FormatWarning,
    InputError,
    PolyvecError,
    Replaced,
    UnknownFormat,
    speak_of,
)
from polyvec.core.format import Confidence, Format, Match
from polyvec.core.shards import arrange, expand, is_pattern, permit_files
from polyvec.core.sidecars import attach_sidecars, sidecar_paths
from polyvec.core.sources import Source, open_source
from polyvec.formats.foreign import HEAD_BYTES as FOREIGN_BYTES
from polyvec.formats.foreign import Foreign, identify

HEAD_BYTES = 4096
SETTLING = (
    0.0,
    0.005,
    0.01,
    0.02,
    0.05,
    0.05,
    0.1,
    0.1,
    0.2,
    0.2,
    0.5,
)  # seconds between attempts at a file that is being replaced

Result = TypeVar("Result")

_registered: list[Format] = []


@cache
def _discovered() -> tuple[Format, ...]:
    found: list[Format] = []
    for module in pkgutil.iter_modules(__path__):
        loaded = import_module(f"{__name__}.{module.name}")
        formats = getattr(loaded, "FORMATS", None) or [getattr(loaded, "FORMAT", None)]
        found.extend(f for f in formats if f is not None)
    return tuple(sorted(found, key=lambda f: f.name))


def all_formats() -> list[Format]:
    """Every format there is, by name."""
    return [*_discovered(), *_registered]


@contextmanager
def registered(format: Format) -> Iterator[Format]:
    """Add a format from outside this folder for a while (tests, notebooks)."""
    _registered.append(format)
    try:
        yield format
    finally:
        _registered.remove(format)


def find_format(name: str) -> tuple[Format, str]:
    """A format and variant by name, alias or suffix: ``bins``, ``fbin``, ``.fbin``."""
    wanted = name.lower().lstrip(".")
    for format in all_formats():
        if wanted == format.name:
            return format, ""
    for format in all_formats():
        if wanted in format.aliases:
            return format, format.aliases[wanted]
        if f".{wanted}" in format.suffixes:
            return format, wanted
    known = [other for f in all_formats() for other in (f.name, *f.aliases, *(s[1:] for s in f.suffixes))]
    raise InputError(
        f"unknown format {name!r}; there are {', '.join(f.name for f in all_formats())}{near(wanted, known)}"
    )


@dataclass(frozen=True, slots=True)
class Detection:
    """The format chosen for a file, why, and every other reading that fits."""

    format: Format
    match: Match
    others: tuple[tuple[Format, Match], ...] = ()


def _suffixes() -> list[str]:
    return [suffix for format in all_formats() for suffix in format.suffixes]


def readings(source: Source) -> list[tuple[Format, Match]]:
    """Every reading of a file by every format, surest first."""
    head = source.read_at(0, HEAD_BYTES)
    found = [(f, m) for f in all_formats() for m in f.sniff(head, source.size, source.suffix)]
    return sorted(found, key=lambda pair: -pair[1].confidence)


def detect(source: Source, format: str | None = None) -> Detection:
    """The format of a file: by magic, then size equation and name, then name, then size equation alone."""
    found = readings(source)
    other = foreign(source)
    if other is not None and other.sure and not any(m.confidence == Confidence.MAGIC for _, m in found):
        if format is not None:
            find_format(format)  # a wrong name is the first thing to say
        raise refused(source, other)
    if format is not None:
        chosen, variant = find_format(format)
        others = tuple(pair for pair in found if pair[0] is not chosen)
        own = next((m for f, m in found if f is chosen and (not variant or m.variant == variant)), None)
        reason = f"asked for as {format}" + (f"; {own.reason}" if own else "; the bytes do not look like it")
        own_variant = variant or (own.variant if own else "")
        return Detection(chosen, Match(Confidence.NAMED, reason, own_variant), others)
    for confidence in (Confidence.MAGIC, Confidence.NAMED, Confidence.SUFFIX, Confidence.FITS):
        level = [pair for pair in found if pair[1].confidence == confidence]
        if len(level) > 1 and confidence in (Confidence.FITS, Confidence.NAMED):
            names = ", ".join(m.variant or f.name for f, m in level)
            example = level[0][1].variant or level[0][0].name
            raise AmbiguousFormat(
                f"the file fits several formats: {names}",
                path=source.label,
                found=f"{source.size} bytes",
                remedy=f"say which with --from (format=), for example --from {example}",
            )
        if level and confidence == Confidence.SUFFIX and other is not None and other.remedy:
            raise refused(source, other)
        if level:
            others = tuple(pair for pair in found if pair is not level[0])
            return Detection(level[0][0], level[0][1], others)
    raise UnknownFormat(
        "no format recognises this file",
        path=source.label,
        offset=0,
        expected="one of " + ", ".join(f.name for f in all_formats()),
        found=f"{source.size} bytes starting {_shown(source)}",
        remedy=other.remedy
        if other is not None and other.remedy
        else "say what it is with --from (format=), or convert it to npy first" + near(source.suffix, _suffixes()),
    )


def foreign(source: Source) -> Foreign | None:
    """What a file is that holds no embeddings, where its first bytes tell."""
    return identify(source.read_at(0, FOREIGN_BYTES), source.size)


def refuse_foreign(source: Source) -> None:
    """`UnknownFormat` where a file's first bytes say that it holds no embeddings; for readers of one format alone."""
    found = foreign(source)
    if found is not None and found.sure:
        raise refused(source, found)


def refused(source: Source, found: Foreign) -> UnknownFormat:
    """The error for a file that holds no embeddings."""
    return UnknownFormat(
        f"this is {found.kind}, not an embedding file",
        path=source.label,
        offset=0,
        expected="an embedding file",
        found=f"{source.size} bytes",
        remedy=found.remedy or None,
    )


def near(name: str, known: Iterable[str]) -> str:
    """``; did you mean fbin?`` where a known name is spelled much like this one, else nothing."""
    found = get_close_matches(name.lower(), sorted(set(known)), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _shown(source: Source) -> str:
    head, kind = source.read_at(0, 8).hex(" "), foreign(source)
    return f"{head}: {kind.kind}" if kind else head


def open(
    where: str | os.PathLike[str] | bytes | Source,
    *,
    format: str | None = None,
    lenient: bool = False,
    sidecars: bool = True,
    offered: Mapping[str, Any] | None = None,
    **own: Any,
) -> Collection:
    """Open an embedding file of any format, or a glob of shards, as one lazy `Collection`.

    ``format`` forces a format or variant (``"fbin"``); ``lenient`` takes the whole rows of a file whose end is
    missing; further options are the format's own (``dim=384`` of a headerless .i8bin). Of ``offered`` those are taken
    that the format knows; ``Collection.taken`` names them. Raises `FormatError` on bad data, OSError on a missing file.
    """
    if isinstance(where, (str, os.PathLike)) and is_pattern(os.fspath(where)):
        return _open_shards(os.fspath(where), format=format, lenient=lenient, sidecars=sidecars, offered=offered, **own)

    if isinstance(where, Source):
        return _open(where, format, lenient, sidecars, own, offered)
    return settled(lambda: _open(open_source(where), format, lenient, sidecars, own, offered))


def _open(
    source: Source,
    format: str | None,
    lenient: bool,
    sidecars: bool,
    own: dict[str, Any],
    offered: Mapping[str, Any] | None,
) -> Collection:
    """A collection over a source; `Replaced` where the path names another file by the time all parts are open."""
    collection: Collection | None = None
    try:
        detection = detect(source, format)
        own = reading_options(detection.format, own, offered)
        try:
            collection = detection.format.open(source, variant=detection.match.variant, lenient=lenient, **own)
            for note in collection.notes:
                warnings.warn(f"{source.label}: {note}", FormatWarning, stacklevel=4)
            if sidecars and source.place is not None:
                attach_sidecars(collection, source)
        except FormatError as error:
            raise hinted(error.located(source.label), detection, source) from None
        _refuse_replaced(source)
    except BaseException as error:
        if (local := source.local()) is not None and str(local) != source.label:
            speak_of(error, str(local), source.label)
        try:
            if isinstance(error, FormatError | FileNotFoundError):
                _refuse_replaced(source)  # what is wrong may be that parts of two files were read
        finally:
            if collection is not None:
                collection.close()
            source.close()
        raise
    collection.path = source.label
    collection.format = detection.format.name
    collection.reason = detection.match.reason
    collection.taken = frozenset(own)
    collection.on_close(source.close)
    return collection


def _refuse_replaced(source: Source) -> None:
    if source.replaced():
        raise _replaced(source)


def _replaced(source: Source) -> Replaced:
    return Replaced(
        "the file was replaced while it was opened", path=source.label, remedy="open it again when its writer is done"
    )


def settled(work: Callable[[], Result]) -> Result:
    """What opening something gives; opened again where another program replaced a file meanwhile."""
    for wait in SETTLING:
        try:
            return work()
        except Replaced:
            time.sleep(wait)
    return work()


def reading_options(format: Format, own: Mapping[str, Any], offered: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The options to open a file with: those meant for it, which the format must know, and of the offered those it knows."""
    unknown = sorted(set(own) - set(format.reading))
    if unknown:
        known = f"; it has {', '.join(format.reading)}" if format.reading else ""
        raise InputError(f"{format.name} has no option {', '.join(unknown)} to be read by{known}")
    return {**{name: value for name, value in (offered or {}).items() if name in format.reading}, **own}


def hinted(error: FormatError, detection: Detection, source: Source) -> FormatError:
    """An error of a format chosen by name also tells what the bytes look like."""
    if detection.match.confidence < Confidence.MAGIC:
        hint = None
        better = [(f, m) for f, m in detection.others if m.confidence >= Confidence.FITS]
        other = foreign(source)
        if better:
            name = better[0][1].variant or better[0][0].name
            hint = f"the bytes look like {name} ({better[0][1].reason}): try --from {name}"
        elif other is not None:
            hint = f"the bytes look like {other}"
        if hint:
            error.remedy = f"{error.remedy}; {hint}" if error.remedy else hint
    return error


def _open_shards(pattern: str, **options: Any) -> Collection:
    def work() -> Collection:
        shards = arrange(expand(pattern))

        def refuse_moved() -> None:
            try:
                found = expand(pattern)
            except InputError:
                found = []
            if found != list(shards.paths):
                raise Replaced(
                    "shards were added or removed while they were opened",
                    path=pattern,
                    remedy="open them again when their writer is done",
                )

        for problem in shards.problems:
            warnings.warn(problem, FormatWarning, stacklevel=5)
        try:
            whole = _open_all([os.fspath(p) for p in shards.paths], options)
        except FileNotFoundError as error:  # it was listed a moment ago, and may be there again by now
            raise Replaced(
                "a shard was removed while they were opened",
                path=str(error.filename or pattern),
                remedy="open them again when their writer is done",
            ) from None
        except PolyvecError:
            refuse_moved()
            raise
        try:
            refuse_moved()
        except BaseException:
            whole.close()
            raise
        return whole

    return settled(work)


def open_many(paths: list[str], **options: Any) -> Collection:
    """Several files as one collection, in order; `InputError` where columns, dimensions or dtypes differ."""
    return settled(lambda: _open_all(paths, options))


def _open_all(paths: list[str], options: dict[str, Any]) -> Collection:
    own = dict(options)
    offered = own.pop("offered", None)
    common = (own.pop("format", None), own.pop("lenient", False), own.pop("sidecars", True))
    opened: list[Collection] = []
    sources: list[Source] = []
    permit_files(len(paths) * (1 + len(sidecar_paths(Path(paths[0])))))
    try:
        for path in paths:
            sources.append(open_source(path))
            opened.append(_open(sources[-1], *common, own, offered))
            check_alike(opened[0], opened[-1])
        for source in sources:
            _refuse_replaced(source)
        return concat(opened)
    except BaseException as error:
        moved = isinstance(error, PolyvecError) and next((s for s in sources if s.replaced()), None)
        for collection in opened:
            collection.close()
        for source in sources:
            source.close()
        if moved:  # what is wrong may be that files of two sets were read
            raise _replaced(moved) from None
        raise


def check_alike(first: Collection, other: Collection) -> None:
    """`InputError`, naming both, unless two collections have the same columns, dimensions and dtypes."""
    if set(first.columns) != set(other.columns):
        raise InputError(
            f"{other.path}: columns {sorted(other.columns)} differ from {sorted(first.columns)} of {first.path}"
        )
    for name, column in first.columns.items():
        found = other[name]
        if found.row_shape != column.row_shape or found.dtype != column.dtype:
            raise InputError(
                f"{other.path}: expected {_kind(column)} as in {first.path}, found {_kind(found)}; "
                "merge files of one kind"
            )


def _kind(column: Any) -> str:
    dim = "x".join(map(str, column.row_shape)) or "1"
    return f"dimension {dim} of {column.dtype}"
