"""What the word formats share: unit rows with their lengths apart, and both folded into one again. Not a format.

Only what a source says are lengths (`Column.lengths`: finalfusion's norms, fastText's) are multiplied into rows; another
column that happens to be called norms is a column like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polyvec.core.blocks import Array, cast
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, ReaderColumn
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.vocab import Strings
from polyvec.formats.spelling import spelled, unique_words, with_vocab, words_of
from polyvec.formats.wordoptions import UNNORMALIZE
from polyvec.kernels.lengths import unit_rows
from polyvec.kernels.rows import scale_rows

__all__ = ["F32", "blocks_of", "float_rows", "prepare_plain", "prepare_words", "words_of"]

F32 = np.dtype("<f4")
NORMS = "norms"
SUBWORDS = "subwords"


def float_rows(column: Column, start: int, stop: int) -> Array:
    """Rows of a column as a fresh float32 array; `InputError` where an integer would change."""
    rows = cast(column[start:stop], F32)
    return np.array(rows, F32, order="C")


class UnitRows(ReaderColumn):
    """Rows of another column at unit length, in float32; `original` is that column. Lengths are kept once known."""

    def __init__(self, original: Column) -> None:
        super().__init__(original.name, original.shape, F32, self.unit)
        self.original = original
        self._lengths = np.full(original.rows, -1, np.float32)

    def lengths_between(self, start: int, stop: int) -> Array:
        """The lengths that rows start to stop had."""
        if (self._lengths[start:stop] < 0).any():
            self.unit(start, stop)
        return self._lengths[start:stop].copy()

    def unit(self, start: int, stop: int) -> Array:
        """Unit rows start to stop."""
        rows = self.original[start:stop]
        if rows.dtype.kind in "fV" and rows.dtype.itemsize <= 4:
            rows = np.array(cast(rows, F32), F32, order="C")
        else:  # whole numbers, and floats of a wider range: their squares need more
            rows = rows.astype(np.float64)
        unit, exact = unit_rows(rows)
        with np.errstate(over="ignore", under="ignore"):
            lengths = exact.astype(np.float32)
        bad = np.flatnonzero(np.isinf(lengths) | ((lengths == 0) & (exact > 0)))
        if len(bad):
            row = start + int(bad[0])
            raise LossyConversion(
                f"the length of row {row} ({exact[bad[0]]:.3g}) is beyond float32, in which norms are kept; scale the "
                "rows, or write them as they are with --option normalize=false (normalize=False)"
            )
        self._lengths[start:stop] = lengths
        return unit


def unit_columns(collection: Collection) -> Collection:
    """The same words with rows of unit length, and their lengths as the column ``norms``."""
    unit = UnitRows(collection.vectors)
    lengths = ReaderColumn(NORMS, (unit.rows,), F32, unit.lengths_between)
    lengths.lengths = True
    return collection.with_parts(columns={**collection.columns, collection.main: unit, NORMS: lengths})


def lengths_of(collection: Collection) -> str | None:
    """The column of the lengths that the main column's rows were divided by, where the source says so."""
    for name, column in collection.columns.items():
        if column.lengths and name != collection.main and column.shape == (collection.rows,):
            return name
    return None


def with_lengths(collection: Collection, own: Mapping[str, Any]) -> Collection:
    """The collection with its lengths marked: those the source knows as such, or the column ``lengths`` names."""
    asked = own.get("lengths")
    if asked is None:
        return collection
    if asked not in collection.columns or collection[asked].shape != (collection.rows,) or asked == collection.main:
        there = ", ".join(n for n, c in collection.columns.items() if c.shape == (collection.rows,)) or "none"
        raise InputError(f"lengths={asked!r} names no column of one value a row; there are {there}")
    column = collection[asked]
    marked = ReaderColumn(NORMS, column.shape, F32, lambda start, stop: float_rows(column, start, stop))
    marked.lengths = True
    columns = {name: c for name, c in collection.columns.items() if name != asked and not c.lengths}
    return collection.with_parts(columns={**columns, NORMS: marked})


def fold_lengths(collection: Collection, name: str) -> Collection:
    """The same words with each row times its length, and without the column of lengths."""
    columns = {other: c for other, c in collection.columns.items() if other != name}
    columns[collection.main] = folded(collection.vectors, collection[name])
    return collection.with_parts(columns=columns)


def folded(column: Column, lengths: Column) -> Column:
    """Each row times its length, as float32."""

    def scaled(start: int, stop: int) -> Array:
        return scale_rows(float_rows(column, start, stop), np.ascontiguousarray(lengths[start:stop], np.float32))

    return ReaderColumn(column.name, column.shape, F32, scaled)


def products(column: Column, lengths: Column) -> Column:
    """Each row times its length in float64, which is exact: what a receipt compares with the rows that were given."""

    def scaled(start: int, stop: int) -> Array:
        rows = np.asarray(column[start:stop], np.float64)
        return np.asarray(rows * np.asarray(lengths[start:stop], np.float64)[:, None])

    return ReaderColumn(column.name, column.shape, np.dtype("<f8"), scaled)


def prepare_plain(
    collection: Collection, own: Mapping[str, Any], name: str, *, forbidden: bytes, ends: bytes = b""
) -> tuple[Collection, list[str]]:
    """For formats of one row a word: words spelled, lengths folded in (``unnormalize=False`` drops them), subwords
    refused."""
    collection, dropped = prepare_words(with_lengths(collection, own), own, name, forbidden=forbidden, ends=ends)
    subwords = collection.vocab.subwords if collection.vocab is not None else None
    if SUBWORDS in collection.columns and subwords is not None:
        if own.get("subwords") != "drop":
            shape = "x".join(map(str, collection[SUBWORDS].shape))
            raise LossyConversion(
                f"{name} has no place for the subword rows ({shape}); leave them out with "
                "--option subwords=drop (subwords='drop'), or write .fifu"
            )
        collection = collection.with_parts(columns={n: c for n, c in collection.columns.items() if n != SUBWORDS})
        dropped = [*dropped, SUBWORDS]
    lengths = lengths_of(collection)
    if lengths is None:
        return collection, dropped
    if UNNORMALIZE.of(own):
        return fold_lengths(collection, lengths), dropped
    columns = {n: c for n, c in collection.columns.items() if n != lengths}
    return collection.with_parts(columns=columns), [*dropped, lengths]


def prepare_words(
    collection: Collection, own: Mapping[str, Any], name: str, *, forbidden: bytes = b"", ends: bytes = b""
) -> tuple[Collection, list[str]]:
    """The collection with words that the format can hold: each once, spelled so that they read back."""
    if len(collection.vectors.shape) != 2:
        raise LossyConversion(
            f"{name} holds a row of numbers a word, and the column {collection.main!r} has the shape "
            f"{collection.vectors.shape}; choose another with --column (column=), or write .npy"
        )
    collection, dropped = unique_words(collection, own, name)
    if collection.vocab is None and not isinstance(collection.ids, Strings):
        return collection, dropped  # row numbers: each once, and easily spelled
    strings = words_of(collection)
    fine = spelled(strings, name=name, forbidden=forbidden, ends=ends, replace=own.get("spaces"))
    return (collection if fine is strings else with_vocab(collection, fine)), dropped


def keep_lengths(collection: Collection, own: Mapping[str, Any], name: str) -> Collection:
    """For formats with norms of their own: the lengths as the column ``norms``, and nothing else under that name.

    A collection made in memory says what it means by the name; a file's column of that name may be anything.
    """
    collection = with_lengths(collection, own)
    lengths = lengths_of(collection)
    if lengths not in (None, NORMS):
        columns = {n: c for n, c in collection.columns.items() if n not in (lengths, NORMS)}
        return collection.with_parts(columns={**columns, NORMS: collection[str(lengths)]})
    if lengths is None and NORMS in collection.columns and collection.main != NORMS and collection.format != "memory":
        raise LossyConversion(
            f"the source's column norms may be anything, and {name} would take it for the lengths of the rows; say so "
            f"with --option lengths=norms (lengths='norms'), or leave it out with --column {collection.main} (column=)"
        )
    return collection


def blocks_of(collection: Collection, rows: int = 8192) -> Iterator[tuple[int, int, Array]]:
    """The main column as float32 rows, a block at a time: start, stop, rows."""
    column = collection.vectors
    for start in range(0, column.rows, rows):
        stop = min(start + rows, column.rows)
        yield start, stop, float_rows(column, start, stop)
