"""Opening files of any format, one or many, as collections. Not a format."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from polyvec.core.arguments import check_flags, check_mapping, check_paths, check_texts, joined
from polyvec.core.collection import Collection, concat
from polyvec.core.errors import FormatError, InputError, PolyvecError, Replaced, speak_of
from polyvec.core.format import Format
from polyvec.core.options import check_options, names
from polyvec.core.places import Place
from polyvec.core.remarks import remark
from polyvec.core.shards import Named, arrange, expand, permit_files
from polyvec.core.sidecars import sidecar_places
from polyvec.core.signatures import shows_options
from polyvec.core.sources import IN_MEMORY, Source, Where, open_source
from polyvec.formats.detection import detect, hinted
from polyvec.formats.options import ReadingOptions
from polyvec.formats.origins import open_as

# Seconds between attempts at a file that is being replaced: at once, then ever more patiently, for about a second.
SETTLING = (0.0, 0.005, 0.01, 0.02, 0.05, 0.05, 0.1, 0.1, 0.2, 0.2, 0.5)

Result = TypeVar("Result")


@shows_options(ReadingOptions)
def open(
    where: Where | Source,
    *,
    format: str | None = None,
    lenient: bool = False,
    sidecars: bool = True,
    offered: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **own: Unpack[ReadingOptions],
) -> Collection:
    """Open an embedding file of any format, or a glob of shards, as one lazy `Collection`.

    ``format`` forces a format or variant (``"fbin"``); ``lenient`` takes the whole rows of a file whose end is
    missing; further options are the format's own (``dim=384`` of a headerless .i8bin), which ``options`` takes by name,
    also those of formats from outside. Of ``offered`` those are taken
    that the format knows; ``Collection.taken`` names them. Raises `FormatError` on bad data, OSError on a missing file.
    """
    check_texts(format=format)
    check_flags(lenient=lenient, sidecars=sidecars)
    check_mapping(offered=offered)
    given = joined(own, options)
    if isinstance(where, Source):
        return _open(where, format, lenient, sidecars, given, offered)
    if not isinstance(where, (*IN_MEMORY, Place)):
        check_paths(where=where)
        where = where if os.fspath(where) == "-" else Place.of(where)
    if isinstance(where, Place) and where.is_pattern():
        return _open_shards(where, format=format, lenient=lenient, sidecars=sidecars, offered=offered, **given)
    return settled(lambda: _open(open_source(where), format, lenient, sidecars, given, offered))


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
            collection = open_as(source, detection.format, detection.match.variant, lenient, sidecars, own)
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
    collection.path, collection.place = source.label, source.place
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
    known = names(format.reading)
    given = {**{name: value for name, value in (offered or {}).items() if name in known}, **own}
    return check_options(format.name, format.reading, given, reading=True, others=format.options)


def _open_shards(pattern: Place, **options: Any) -> Collection:
    def work() -> Collection:
        shards = arrange(expand(pattern))

        def refuse_moved() -> None:
            try:
                found = expand(pattern)
            except InputError:
                found = []
            if found != list(shards.places):
                raise Replaced(
                    "shards were added or removed while they were opened",
                    path=str(pattern),
                    remedy="open them again when their writer is done",
                )

        for problem in shards.problems:
            remark(problem, stacklevel=5)
        try:
            whole = _open_all(shards.places, options)
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


def open_many(named: Sequence[Named], **options: Any) -> Collection:
    """Several files as one collection, in order; `InputError` where columns, dimensions or dtypes differ."""
    return settled(lambda: _open_all(named, options))


def _open_all(named: Sequence[Named], options: dict[str, Any]) -> Collection:
    own = dict(options)
    offered = own.pop("offered", None)
    common = (own.pop("format", None), own.pop("lenient", False), own.pop("sidecars", True))
    opened: list[Collection] = []
    sources: list[Source] = []
    first = Place.of(named[0])
    if first.local:
        permit_files(len(named) * (1 + len(sidecar_places(first))))
    try:
        for one in named:
            sources.append(open_source(one))
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
