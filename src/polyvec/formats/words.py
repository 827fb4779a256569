"""What the word formats share: unit rows with norms, norms folded back in, words a format can spell. Not a format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polyvec.core.blocks import Array, cast
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, ReaderColumn
from polyvec.core.errors import LossyConversion
from polyvec.core.vocab import Strings
from polyvec.kernels import strings as tables
from polyvec.kernels.rows import row_norms, scale_rows

F32 = np.dtype("<f4")


def float_rows(column: Column, start: int, stop: int) -> Array:
    """Rows of a column as a fresh float32 array; `InputError` where an integer would change."""
    rows = cast(column[start:stop], F32)
    return np.array(rows, F32, order="C")


def unit_columns(collection: Collection) -> Collection:
    """The same words with rows of unit length, and their lengths as the column ``norms``."""
    column = collection.vectors

    def unit(start: int, stop: int) -> Array:
        rows = float_rows(column, start, stop)
        scale_rows(rows, row_norms(rows), inverse=True)
        return rows

    norms = ReaderColumn("norms", (column.rows,), F32, lambda start, stop: row_norms(float_rows(column, start, stop)))
    columns = {
        **collection.columns,
        collection.main: ReaderColumn(column.name, column.shape, F32, unit),
        "norms": norms,
    }
    return _replaced(collection, columns)


def fold_norms(collection: Collection) -> Collection:
    """The same words with each row times its norm, and without the column ``norms``."""
    column, norms = collection.vectors, collection["norms"]

    def scaled(start: int, stop: int) -> Array:
        return scale_rows(float_rows(column, start, stop), np.ascontiguousarray(norms[start:stop], np.float32))

    columns = {name: c for name, c in collection.columns.items() if name != "norms"}
    columns[collection.main] = ReaderColumn(column.name, column.shape, F32, scaled)
    return _replaced(collection, columns)


def _replaced(collection: Collection, columns: Mapping[str, Column]) -> Collection:
    return Collection(
        columns, main=collection.main, vocab=collection.vocab, records=collection.records, ids=collection.ids,
        metadata=collection.metadata, format=collection.format, path=collection.path, notes=collection.notes,
    )  # fmt: skip


def prepare_plain(collection: Collection, own: Mapping[str, Any], name: str) -> tuple[Collection, list[str]]:
    """For formats of one row a word: norms folded in (``unnormalize=False`` drops them), subwords refused."""
    dropped: list[str] = []
    if "subwords" in collection.columns:
        if own.get("subwords") != "drop":
            shape = "x".join(map(str, collection["subwords"].shape))
            raise LossyConversion(f"{name} has no place for the subword rows ({shape}); leave them out with "
                                  "--option subwords=drop (subwords='drop'), or write .fifu")  # fmt: skip
        columns = {n: c for n, c in collection.columns.items() if n != "subwords"}
        collection, dropped = _replaced(collection, columns), ["subwords"]
    if "norms" in collection.columns and collection["norms"].shape == (collection.rows,):
        if own.get("unnormalize", True):
            collection = fold_norms(collection)
        else:
            columns = {n: c for n, c in collection.columns.items() if n != "norms"}
            collection, dropped = _replaced(collection, columns), [*dropped, "norms"]
    return collection, dropped


def words_of(collection: Collection) -> Strings:
    """The words; row numbers where there are none, because the format needs one a row."""
    if collection.vocab is not None:
        return collection.vocab.words
    if isinstance(collection.ids, Strings):
        return collection.ids
    return Strings.from_words([str(row) for row in range(collection.rows)])


def spelled(strings: Strings, *, forbidden: bytes, ends: bytes, name: str, replace: str | None) -> Strings:
    """The words as a format can spell them: none empty, none with a forbidden byte or one of ``ends`` at its end.

    ``replace`` stands for each such byte; without it the first such word is a `LossyConversion`.
    """
    table = strings.table
    empty = np.flatnonzero(table.starts == table.stops)
    if len(empty):
        raise LossyConversion(f"the word of row {int(empty[0])} is empty, which {name} cannot hold; remove or name it")
    bad = _rows_with(table, np.frombuffer(forbidden, np.uint8))
    if len(table):
        last = table.data[table.stops - 1]
        bad = np.union1d(bad, np.flatnonzero(np.isin(last, np.frombuffer(ends, np.uint8))))
    if not len(bad):
        return strings
    if replace is None:
        row = int(bad[0])
        raise LossyConversion(f"the word {strings[row]!r} of row {row} holds a blank or line break that "
                              f"{name} cannot hold; replace it with --option spaces=_ (spaces='_')")  # fmt: skip
    wanted = replace.encode()
    fixed = []
    for row in bad:
        word = strings.raw(int(row))
        for byte in set(forbidden + ends):
            word = word.replace(bytes([byte]), wanted)
        fixed.append(word)
    packed = tables.pack(fixed)
    starts, stops = table.starts.copy(), table.stops.copy()
    starts[bad], stops[bad] = packed.starts + len(table.data), packed.stops + len(table.data)
    return Strings(np.concatenate([table.data, packed.data]), starts, stops, label=strings.label)


def _rows_with(table: tables.Table, marks: Array) -> Array:
    """The rows whose word holds one of the marked bytes."""
    found = []
    for start in range(0, len(table), 1 << 16):
        piece = table.slice(start, start + (1 << 16))
        joined = tables.join(piece)
        places = np.flatnonzero(np.isin(joined, marks)) if len(joined) else np.empty(0, np.int64)
        if len(places):
            ends = np.cumsum(piece.stops - piece.starts)
            found.append(start + np.unique(np.searchsorted(ends, places, side="right")))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def blocks_of(collection: Collection, rows: int = 8192) -> Iterator[tuple[int, int, Array]]:
    """The main column as float32 rows, a block at a time: start, stop, rows."""
    column = collection.vectors
    for start in range(0, column.rows, rows):
        stop = min(start + rows, column.rows)
        yield start, stop, float_rows(column, start, stop)
