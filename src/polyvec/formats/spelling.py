"""Words as a word format can hold them: each once, none empty, none that reads back as another. Not a format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError, LossyConversion
from polyvec.core.format import Finding, check_rows
from polyvec.core.views import TakeColumn
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.wordoptions import DUPLICATES
from polyvec.kernels import strings as tables

AT_ONCE = 1 << 16  # words looked at together
SHOWN = 60  # characters of a word that an error shows


def words_of(collection: Collection) -> Strings:
    """The words; ids that are text, or row numbers, where there are none, because a word format needs one a row."""
    if collection.vocab is not None:
        return collection.vocab.words
    if isinstance(collection.ids, Strings):
        return collection.ids
    return Strings.from_words([str(row) for row in range(collection.rows)])


def shown(word: str) -> str:
    """A word as errors name it, cut where it is long."""
    return repr(word if len(word) <= SHOWN else word[:SHOWN] + "…")


# -- each word once


def unique_words(collection: Collection, own: Mapping[str, Any], name: str) -> tuple[Collection, list[str]]:
    """The collection with each word once, and what was left out; equal words are a `LossyConversion` unless asked.

    ``duplicates`` in the options is ``first`` or ``last`` (keep that row of equal words) or ``rename`` (the others
    become ``word_2``, ``word_3``…).
    """
    asked = DUPLICATES.of(own)
    if collection.vocab is None and not isinstance(collection.ids, Strings):
        return collection, []  # row numbers
    strings = words_of(collection)
    vocab = collection.vocab if collection.vocab is not None else Vocab(strings)
    again = vocab.duplicates
    if not len(again):
        return collection, []
    index = tables.build_index(strings.table)
    row = int(again[0])
    word, first = strings.raw(row).decode("utf-8", "replace"), index.find(strings.raw(row))
    if asked == "error":
        more = f", and {len(again) - 1} more rows repeat a word" if len(again) > 1 else ""
        raise LossyConversion(
            f"the word {shown(word)} stands in rows {first} and {row}{more}, and {name} holds each word once; choose "
            "with --duplicates first, last or rename (duplicates=)"
        )
    if asked == "rename":
        renamed = _renamed(strings, index, again)
        result = with_vocab(collection, renamed)
        result.notes.append(f"{len(again)} repeated words are renamed, the first is {shown(renamed[row])} in row {row}")
        return result, []
    rows = _kept_rows(strings, index, again, last=asked == "last")
    result = choose_rows(collection, rows)
    result.notes.append(
        f"{len(again)} rows of repeated words are left out (the {asked} of equal words is kept), such as "
        f"{shown(word)} of rows {first} and {row}"
    )
    return result, [f"{len(again)} rows of repeated words"]


def repeated(collection: Collection, severity: str) -> Iterator[Finding]:
    """A finding where words stand twice."""
    assert collection.vocab is not None
    again = collection.vocab.duplicates
    if not len(again):
        return
    row = int(again[0])
    word = collection.vocab[row]
    message = (
        f"{len(again)} words stand twice, the first is {shown(word)} in rows {collection.vocab.index(word)} and {row}"
    )
    yield Finding(severity, message, int(collection.vocab.words.starts[row]), f"word {row}")


def check_words_too(collection: Collection) -> Iterator[Finding]:
    """What `verify` says of a word format whose tools take the first of equal words."""
    yield from (Finding("warning", note) for note in collection.notes)
    yield from repeated(collection, "warning")
    yield from check_rows(collection)


def _kept_rows(strings: Strings, index: tables.Index, again: NDArray[np.int64], *, last: bool) -> NDArray[np.int64]:
    keep = np.ones(len(strings), bool)
    if not last:
        keep[again] = False
        return np.flatnonzero(keep)
    latest: dict[bytes, int] = {}
    for row in again.tolist():  # ascending: what stays is the last of each
        word = strings.raw(row)
        keep[latest.get(word, index.find(word))] = False
        latest[word] = row
    return np.flatnonzero(keep)


def _renamed(strings: Strings, index: tables.Index, again: NDArray[np.int64]) -> Strings:
    taken: set[bytes] = set()
    counts: dict[bytes, int] = {}
    names = []
    for row in again.tolist():
        word = strings.raw(row)
        number = counts.get(word, 1) + 1
        while index.find(name := word + f"_{number}".encode()) >= 0 or name in taken:
            number += 1
        counts[word] = number
        taken.add(name)
        names.append(name)
    return replaced(strings, again, names)


def with_vocab(collection: Collection, strings: Strings) -> Collection:
    """The same collection with other words."""
    subwords = collection.vocab.subwords if collection.vocab is not None else None
    return collection.with_parts(vocab=Vocab(strings, subwords=subwords))


def choose_rows(collection: Collection, rows: NDArray[np.int64]) -> Collection:
    """Chosen word rows with all that belongs to them; subword rows stay as they are."""
    chosen = collection.take(rows)
    columns = {
        name: column if name == "subwords" and column.rows == indexed(collection) else TakeColumn(column, rows)
        for name, column in collection.columns.items()
    }
    subwords = collection.vocab.subwords if collection.vocab is not None else None
    vocab = None if chosen.vocab is None else Vocab(chosen.vocab.words, subwords=subwords)
    return collection.with_parts(columns=columns, vocab=vocab, records=chosen.records, ids=chosen.ids)


def indexed(collection: Collection) -> int:
    """How many subword rows the vocabulary indexes; -1 where it has no subwords."""
    subwords = collection.vocab.subwords if collection.vocab is not None else None
    return -1 if subwords is None else subwords.rows


# -- spelled so that they read back


def spelled(
    strings: Strings,
    *,
    name: str,
    forbidden: bytes = b"",
    ends: bytes = b"",
    replace: str | None = None,
    remedy: str = "",
) -> Strings:
    """The words as a format can spell them: UTF-8, none empty, without forbidden bytes, none ending with ``ends``.

    ``replace`` stands for each such byte; without it the first such word is a `LossyConversion` that names it.
    """
    strings = _valid(strings, name)
    table = strings.table
    bad = rows_with(table, forbidden)
    if ends and len(table):
        last = table.data[table.stops - 1]
        bad = np.union1d(bad, np.flatnonzero(np.isin(last, np.frombuffer(ends, np.uint8))))
    if not len(bad):
        return strings
    marks = set(forbidden + ends)
    if replace is None:
        row = int(bad[0])
        found = next(byte for byte in reversed(strings.raw(row)) if byte in marks)
        raise LossyConversion(
            f"the word {shown(strings[row])} of row {row} holds {_called(found)}, which {name} cannot spell; replace it "
            f"with --option spaces=_ (spaces='_'){remedy or ', or write .fifu'}"
        )
    wanted = str(replace).encode()
    if not wanted or any(byte in marks for byte in wanted):
        raise InputError(f"spaces={replace!r} cannot stand for what {name} cannot spell; give another, such as _")
    fixed = [_swapped(strings.raw(int(row)), forbidden, ends, wanted) for row in bad]
    result = replaced(strings, bad, fixed)
    again = Vocab(result).duplicates
    if len(again):
        row = int(again[0])
        raise LossyConversion(
            f"with spaces={replace!r} the word {shown(result[row])} of row {row} stands twice; choose another mark"
        )
    return result


def _swapped(word: bytes, forbidden: bytes, ends: bytes, wanted: bytes) -> bytes:
    for byte in set(forbidden):
        word = word.replace(bytes([byte]), wanted)
    kept = word.rstrip(ends) if ends else word
    return kept + wanted * (len(word) - len(kept))


def _called(byte: int) -> str:
    names = {0: "a zero byte", 9: "a tab", 10: "a line break", 13: "a carriage return", 32: "a space"}
    return names.get(byte, f"the byte 0x{byte:02x}")


def _valid(strings: Strings, name: str) -> Strings:
    """The words, each with bytes and in UTF-8; a `LossyConversion` names the first that is not."""
    table = strings.table
    empty = np.flatnonzero(table.starts == table.stops)
    if len(empty):
        raise LossyConversion(
            f"the word of row {int(empty[0])} is empty, which {name} cannot hold; name it, or leave the row out"
        )
    bad = tables.find_invalid(table)
    if not len(bad):
        return strings
    if strings.lossy:
        return Strings.from_table(tables.replace_invalid(table, bad), label=strings.label)
    row = int(bad[0])
    raise LossyConversion(
        f"the word {strings.raw(row)[:SHOWN]!r} of row {row} is not UTF-8, which {name} must be; open the source with "
        "--lenient (lossy=True) to replace what is not"
    )


def replaced(strings: Strings, rows: NDArray[np.int64], words: list[bytes]) -> Strings:
    """The same strings with other words in some rows."""
    packed = tables.pack(words)
    starts, stops = strings.starts.copy(), strings.stops.copy()
    starts[rows], stops[rows] = packed.starts + len(strings.data), packed.stops + len(strings.data)
    return Strings(np.concatenate([strings.data, packed.data]), starts, stops, label=strings.label)


def rows_with(table: tables.Table, marks: bytes) -> NDArray[np.int64]:
    """The rows whose word holds one of the marked bytes."""
    found = []
    wanted = np.zeros(256, bool)
    wanted[list(marks)] = True
    for start in range(0, len(table) if marks else 0, AT_ONCE):
        piece = table.slice(start, start + AT_ONCE)
        joined = tables.join(piece)
        places = np.flatnonzero(wanted[joined])
        if len(places):
            ends = np.cumsum(piece.stops - piece.starts)
            found.append(start + np.unique(np.searchsorted(ends, places, side="right")))
    return np.concatenate(found) if found else np.empty(0, np.int64)
