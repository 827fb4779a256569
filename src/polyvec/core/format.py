"""Format: one kind of file, read and written. What a module of ``polyvec.formats`` provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import FormatError, InputError
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source

Progress = Callable[[int, int], None]


PEEKED_BYTES = 4096  # of a file's head, and of its tail


class Confidence(IntEnum):
    """How sure a format is that a file is its own; what is greater is chosen first."""

    FITS = 1  # the size equation holds; the name says nothing
    SUFFIX = 2  # the name says so, the bytes do not fit
    NAMED = 3  # the size equation holds and the name agrees
    MAGIC = 4  # the file says so itself


@dataclass(frozen=True, slots=True)
class Match:
    """One reading of a file: how sure, why, and which variant of the format (``fbin``, ``ibin``…)."""

    confidence: Confidence
    reason: str
    variant: str = ""

    @property
    def fits(self) -> bool:
        """Whether the bytes speak for it, and not the name alone."""
        return self.confidence is not Confidence.SUFFIX


class Peek:
    """What `Format.sniff` sees of a file. Each part is read when it is asked for, and once for all formats."""

    __slots__ = ("_head", "_source", "_tail", "name", "size", "suffix")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._head: bytes | None = None
        self._tail: bytes | None = None
        self.size, self.name, self.suffix = source.size, source.name, source.suffix

    @property
    def head(self) -> bytes:
        """The first 4096 bytes, or all there are."""
        if self._head is None:
            self._head = self._source.read_at(0, PEEKED_BYTES)
        return self._head

    @property
    def tail(self) -> bytes:
        """The last 4096 bytes, or all there are: some magics stand at the end."""
        if self._tail is None:
            short = self.size <= PEEKED_BYTES
            self._tail = self.head if short else self._source.read_at(self.size - PEEKED_BYTES, PEEKED_BYTES)
        return self._tail


@dataclass(frozen=True, slots=True)
class Holds:
    """What a format can hold. The rest goes into sidecars, or is refused.

    - ``many_columns``: several columns, each under its name, of any numbers of rows.
    - ``vocab``: a word for each row.
    - ``records``: a JSON object for each row.
    - ``ids``: a whole number or a text for each row.
    - ``metadata``: one JSON object for the whole file.
    - ``encodings``: those that can be asked for: raw, float16, bfloat16, int8, pq, lossless.
    - ``dtypes``: of rows that can be written; None for any.
    - ``casts``: rows of other dtypes are rounded to ``dtypes``, and the receipt says so; else they are refused.
    - ``encodes_all``: an encoding that is asked for is that of every column, not of the main one alone.
    - ``own_columns``: columns of the format's own meaning (ids, counts…), and no others.
    """

    many_columns: bool = False
    vocab: bool = False
    records: bool = False
    ids: bool = False
    metadata: bool = False
    encodings: tuple[str, ...] = ("raw",)
    dtypes: tuple[np.dtype[Any], ...] | None = None
    casts: bool = False
    encodes_all: bool = False
    own_columns: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write: ``encoding`` (None keeps the source's, or raw), ``variant``, progress, the format's own options."""

    encoding: str | None = None
    variant: str = ""
    chunk_rows: int | None = None
    progress: Progress | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `verify` found. ``severity`` is ``error``, ``warning`` or ``note``."""

    severity: str
    message: str
    offset: int | None = None
    field: str | None = None

    @classmethod
    def of(cls, error: FormatError) -> Finding:
        """A finding from an error."""
        return cls("error", str(error), error.offset, error.field)


class Format(ABC):
    """One kind of file. Subclasses set the class variables and implement sniff and open, and write where it is written."""

    name: ClassVar[str]
    title: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[Mapping[str, str]] = {}  # other names -> variant
    holds: ClassVar[Holds] = Holds()
    options: ClassVar[tuple[Option, ...]] = ()  # of `write`, beyond the common ones
    reading: ClassVar[tuple[Option, ...]] = ()  # of `open`: what the file does not say itself
    extra: ClassVar[str | None] = None  # the extra of polyvec it needs
    writable: ClassVar[bool] = True
    demo: ClassVar[bool] = True  # whether plain vectors in it make a row of the demo's table
    checksummed: ClassVar[bool] = False  # whether a flipped payload bit can be told
    said: Mapping[str, Any] = MappingProxyType({})  # options of reading that `check` and `layout` go by

    def told(self, own: Mapping[str, Any]) -> Format:
        """This format with options of reading said, for `check` and `layout`."""
        twin = copy(self)
        twin.said = dict(own)
        return twin

    @abstractmethod
    def sniff(self, peek: Peek) -> Sequence[Match]:
        """The readings of a file, best first; empty for none."""

    @abstractmethod
    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        """The file as a collection. Trusts no length; reads the least it can."""

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        """Write a collection that `holds` has been applied to (one column where one fits).

        A format that is only read leaves this as it is, and sets ``writable`` to False.
        """
        raise InputError(f"{self.name} files are only read; choose another format")

    def suits(self, collection: Collection, suffix: str) -> bool:
        """Whether this format, of those that share a suffix, is the one to write the collection."""
        return True

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        """The collection as this format can take it (two columns folded into one, say), and what was left out."""
        return collection, []

    def compared(self, given: Collection, written: Collection) -> tuple[Column, Column]:
        """What a receipt compares: the rows that were given, and the same as readers of the new file see them."""
        return given.vectors, written.vectors

    def holding(self, collection: Collection, options: WriteOptions) -> Holds:
        """What the format holds of this collection, written so; where it depends on what is in it, or on the variant."""
        return self.holds

    def target(self, collection: Collection, options: WriteOptions) -> str:
        """The encoding that `write` will use for the main column, in words; for receipts and dry runs."""
        return options.encoding or "raw"

    def written_variant(self, collection: Collection, options: WriteOptions) -> str:
        """The variant that `write` makes, for formats that choose it by what is in the collection."""
        return options.variant

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        """What is wrong with a file, beyond what `open` refuses. The default reads every row."""
        with self.open(source, variant=variant, **self.said) as collection:
            yield from (Finding("warning", note) for note in collection.notes)
            yield from check_rows(collection)

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        """Whether this file has checksums of all its content, which `check` compares."""
        return self.checksummed

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        """The file's byte map. The default is one line."""
        return [Span(0, source.size, self.name)]


def check_rows(collection: Collection) -> Iterator[Finding]:
    """Read every row of every column; report values that are not finite."""
    for name, column in collection.columns.items():
        bad, first = 0, None
        for block in column.blocks(reuse=True):
            rows = block.decode()
            if rows.dtype.kind == "f" and not np.isfinite(rows).all():
                flawed = np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))
                bad += len(flawed)
                first = block.start + int(flawed[0]) if first is None else first
        if bad:
            yield Finding(
                "warning", f"{bad} rows of column {name!r} hold NaN or infinity, the first is row {first}", field=name
            )
    if collection.records is not None:
        for _ in collection.records.iterate(0, min(1, len(collection.records))):
            pass
