"""Reading back: what was written is opened as its users will open it, and compared, before it replaces anything.

Shapes, the first, last and sampled rows, words, ids, records and metadata are compared. Values that an encoding rounds
are measured; anything else that differs is refused, and the target stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec import formats
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import AmbiguousFormat, FormatError, LossyConversion
from polyvec.core.format import Format
from polyvec.core.plain import stored
from polyvec.core.sidecars import attach_sidecars
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings
from polyvec.writing.loss import SAMPLE_ROWS, Loss, measure_columns

SIDE_ROWS = 64  # compared of each column beside the main one
FEW_ROWS = 8  # where a row may cost a whole chunk, and its writer is in a hurry
SAMPLE_STRINGS = 1024  # words and ids compared
SAMPLE_RECORDS = 64  # each may cost a parse of its own


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be found in a file: a collection, and which of its words, records, ids and metadata were written."""

    collection: Collection
    parts: tuple[str, ...] = ()  # of words, records, ids, metadata: what is in the file
    beside: tuple[str, ...] = ()  # and what is in sidecars


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What reading back found: the main column's loss, those of the other columns that changed, and notes."""

    loss: Loss | None
    columns: Mapping[str, Loss] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_back(
    sink: Sink,
    format: Format,
    variant: str,
    expected: Expected,
    *,
    forced: str | None = None,
    against: Collection | None = None,
    rows: int = SAMPLE_ROWS,
) -> ReadBack:
    """Open what a sink holds and compare it with what was to be written; `LossyConversion` where it is not that.

    ``forced`` is the format's name where the suffix does not choose it. The loss is measured by up to ``rows`` rows of
    ``against``, where what was written is itself made of other rows.
    """
    with sink.source() as source, _refusing(sink, format):
        variant, notes = _recognised(source, sink, format, variant, forced)
        with format.open(source, variant=variant) as found:
            known = dict(found.metadata)  # of which the file itself knows best, whatever lies beside it
            attach_sidecars(found, source)
            pairs = _paired(expected.collection, found)
            losses = _compare_columns(expected.collection, pairs)
            for kind in (*expected.parts, *expected.beside):
                if kind == "metadata" and kind in expected.beside:
                    found.metadata = {**found.metadata, **{k: expected.collection.metadata.get(k) for k in known}}
                COMPARED[kind](expected.collection, found)
            before, after = format.compared(expected.collection if against is None else against, found)
            if after is found.vectors:
                after = pairs[expected.collection.main]  # which may be one that the file's main column is made of
            if not _alike(before, after):
                raise _Differs(f"{_shape(before)} come back as {_shape(after)}")
            return ReadBack(measure_columns(before, after, rows=rows), losses, tuple(notes))


def check_collection(sink: Sink, format: Format, collection: Collection) -> None:
    """The same net for those who write a format's bytes themselves: columns, shapes, and a few rows of each."""
    read_back(sink, format, "", Expected(collection), forced=format.name, rows=FEW_ROWS)


def check_shapes(
    sink: Sink, format: Format, shapes: Mapping[str, tuple[int, ...]], *, variant: str = "", **own: Any
) -> None:
    """And for those who write rows that came and went: columns and shapes, and that the ends can be read."""
    with sink.source() as source, _refusing(sink, format), format.open(source, variant=variant, **own) as found:
        if list(found.columns) != list(shapes):
            raise _Differs(f"the columns {', '.join(shapes)} come back as {', '.join(found.columns)}")
        for name, shape in shapes.items():
            if found[name].shape != shape:
                raise _Differs(f"column {name!r} of {_sizes(shape)} comes back as {_shape(found[name])}")
            column = found[name]
            # A row that costs a whole chunk would double the memory of those who hold no more than one.
            if shape[0] and all(e.codec.row_bytes(column.row_shape) is not None for e in column.extents()):
                column.take(np.array([0, shape[0] - 1]))


@contextmanager
def _refusing(sink: Sink, format: Format) -> Iterator[None]:
    """Whatever keeps a file from being read back is a refusal of the write, in one line that names the target."""
    try:
        yield
    except FormatError as error:
        if error.path is not None and error.path not in [one.label for one in (sink, *sink.siblings)]:
            raise  # the source, read once more to compare, has gone bad meanwhile
        raise _refusal(sink, format, f"cannot be read back ({error.message}{_details(error)})") from None
    except _Differs as error:
        raise _refusal(sink, format, f"would be read back differently: {error}") from None


def _refusal(sink: Sink, format: Format, what: str) -> LossyConversion:
    return LossyConversion(
        f"{sink.name}: nothing was written, because as {format.name} this {what}; "
        "choose another format, or change what it cannot hold"
    )


def _details(error: FormatError) -> str:
    shown = [f"expected {error.expected}"] if error.expected is not None else []
    shown += [f"found {error.found}"] if error.found is not None else []
    return ": " + ", ".join(shown) if shown else ""


class _Differs(Exception):
    """Something reads back as another thing."""


def _recognised(source: Source, sink: Sink, format: Format, variant: str, forced: str | None) -> tuple[str, list[str]]:
    """The variant as which the file will be opened; `_Differs` where its name and bytes speak for another format."""
    if forced is not None or sink.alone:
        return variant, []
    try:
        found = formats.detect(source)
    except AmbiguousFormat:
        return variant, [f"the file fits several formats: open it as {variant or format.name} (--from, format=)"]
    if found.format is not format:
        raise _Differs(f"it looks like {found.format.name} ({found.match.reason})")
    return found.match.variant, []


def _compare_columns(wanted: Collection, pairs: Mapping[str, Column]) -> dict[str, Loss]:
    """`_Differs` where a column is another; the losses of those beside the main one that changed."""
    changed: dict[str, Loss] = {}
    for name, column in pairs.items():
        before = wanted[name]
        if not _alike(before, column):
            raise _Differs(f"column {name!r} of {_shape(before)} comes back as {_shape(column)}")
        if name != wanted.main and not (loss := measure_columns(before, column, rows=SIDE_ROWS)).exact:
            changed[name] = loss
    return changed


def _paired(wanted: Collection, found: Collection) -> dict[str, Column]:
    """The columns of the file by the names of what was written. A format may have its own name for a column."""
    named = wanted.main in found.columns
    if named and found.main != wanted.main and not found.vectors.derived:
        raise _Differs(f"{found.main!r} becomes the main column, not {wanted.main!r}")
    pairs = {wanted.main: found[wanted.main] if named else found.vectors}
    others = [name for name in wanted.columns if name != wanted.main]
    pairs.update({name: found[name] for name in others if name in found.columns})
    missing = [name for name in others if name not in pairs]
    free = [name for name in found.columns if name not in pairs and name != found.main]
    if len(missing) == len(free) == 1:
        pairs[missing[0]] = found[free[0]]
    elif missing:
        raise _Differs(f"the column {missing[0]!r} is gone")
    return pairs


def _alike(before: Column, after: Column) -> bool:
    """The same rows of the same shape; one value a row and rows of one value are the same thing."""
    return before.rows == after.rows and (before.row_shape or (1,)) == (after.row_shape or (1,))


def _shape(column: Column) -> str:
    return _sizes(column.shape)


def _sizes(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape))} values"


# -- words, ids, records, metadata


def _words(wanted: Collection, found: Collection) -> None:
    assert wanted.vocab is not None
    if found.vocab is None:
        raise _Differs("the words are gone")
    _strings("word", wanted.vocab.words, found.vocab.words)


def _ids(wanted: Collection, found: Collection) -> None:
    assert wanted.ids is not None
    if found.ids is None:
        raise _Differs("the ids are gone")
    if isinstance(wanted.ids, Strings) != isinstance(found.ids, Strings):
        raise _Differs("ids that are text come back as numbers, or numbers as text")
    if isinstance(wanted.ids, Strings):
        return _strings("id", wanted.ids, found.ids)
    assert isinstance(found.ids, Column)
    _count("ids", len(wanted.ids), len(found.ids))
    rows = _rows(len(wanted.ids), SAMPLE_STRINGS)
    differ = np.flatnonzero(wanted.ids.take(rows) != found.ids.take(rows))
    if len(differ):
        row = int(rows[differ[0]])
        raise _Differs(f"the id {wanted.ids[row]} of row {row} comes back as {found.ids[row]}")
    return None


def _strings(kind: str, wanted: Strings, found: Any) -> None:
    _count(f"{kind}s", len(wanted), len(found))
    for row in _rows(len(wanted), SAMPLE_STRINGS).tolist():
        before, after = wanted.raw(row), found.raw(row)
        if before != after:
            raise _Differs(f"the {kind} {_quoted(before)} of row {row} comes back as {_quoted(after)}")


def _records(wanted: Collection, found: Collection) -> None:
    assert wanted.records is not None
    rows = _rows(len(wanted.records), SAMPLE_RECORDS).tolist()
    if found.records is not None:
        _count("records", len(wanted.records), len(found.records))
    for row in rows:
        before = stored(wanted.records[row])
        after = stored(found.records[row]) if found.records is not None else {}
        if not _equal(before, after):
            raise _Differs(f"the record {_quoted(str(before))} of row {row} comes back as {_quoted(str(after))}")


def _metadata(wanted: Collection, found: Collection) -> None:
    for key, value in wanted.metadata.items():
        if key not in found.metadata:
            raise _Differs(f"the metadata {key!r} is gone")
        before, after = stored(value), stored(found.metadata[key])
        if not _equal(before, after):
            raise _Differs(f"the metadata {key!r} = {_quoted(str(before))} comes back as {_quoted(str(after))}")


COMPARED: dict[str, Callable[[Collection, Collection], None]] = {
    "words": _words,
    "ids": _ids,
    "records": _records,
    "metadata": _metadata,
}


def _count(what: str, wanted: int, found: int) -> None:
    if wanted != found:
        raise _Differs(f"{wanted} {what} come back as {found}")


def _rows(rows: int, count: int) -> NDArray[np.int64]:
    """The first, the last, and as many as asked for between."""
    return np.unique(np.linspace(0, max(0, rows - 1), min(rows, count)).astype(np.int64))


def _quoted(value: bytes | str) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _equal(one: Any, two: Any) -> bool:
    """Equal as JSON is: NaN is NaN, True is not 1."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_equal(value, two[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_equal, one, two))
    if isinstance(one, bool) != isinstance(two, bool):
        return False
    return bool(one == two or (one != one and two != two))
