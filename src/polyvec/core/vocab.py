"""Strings and Vocab: words as bytes with offsets, looked up through an index built on first use.

The index, the batch look-up and decoding run compiled (polyvec.kernels.strings); of equal words the first is meant,
and `Vocab.duplicates` names the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import one_a_row, shown
from polyvec.core.errors import Corrupt, InputError, UnknownWord
from polyvec.core.origins import Once, Part
from polyvec.core.selection import as_slice, one_row, row_numbers
from polyvec.core.subwords import Subwords
from polyvec.kernels import strings as tables
from polyvec.kernels import subwords as ngrams
from polyvec.kernels.threads import default_threads

Offsets = NDArray[np.int64]


class Strings(Part):
    """An immutable sequence of strings over one buffer of bytes: row ``i`` is ``data[starts[i]:stops[i]]``.

    With ``lossy`` invalid UTF-8 is replaced; otherwise it is a `Corrupt` error that names the row.
    """

    def __init__(self, data: Any, starts: Offsets, stops: Offsets, *, label: str = "strings", lossy: bool = False):
        self.data = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
        self.starts = starts
        self.stops = stops
        self.label = label
        self.lossy = lossy

    @classmethod
    def from_words(cls, words: Iterable[str | bytes], *, label: str = "strings") -> Strings:
        """Strings of Python words."""
        given = list(words)
        try:
            packed = tables.pack(given)
        except TypeError:
            odd = next(word for word in given if not isinstance(word, (str, bytes)))
            raise InputError(f"words must be text, not {shown(odd)}") from None
        return cls(packed.data, packed.starts, packed.stops, label=label)

    @classmethod
    def from_table(cls, table: tables.Table, *, label: str = "strings", lossy: bool = False) -> Strings:
        """Strings over a table of the kernels."""
        return cls(table.data, table.starts, table.stops, label=label, lossy=lossy)

    @property
    def table(self) -> tables.Table:
        """The strings as the kernels take them."""
        return tables.Table(self.data, np.ascontiguousarray(self.starts), np.ascontiguousarray(self.stops))

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, row: int) -> bytes:
        """The bytes of one string."""
        return self.data[self.starts[row] : self.stops[row]].tobytes()

    def __getitem__(self, key: Any) -> Any:
        """A string by row, a list of strings by slice or indices."""
        if isinstance(key, slice):
            return self._decode_table(self.starts[key], self.stops[key], range(*key.indices(len(self))))
        row = one_row(key, len(self))
        if row is not None:
            return self._decode(row)
        rows = np.asarray(row_numbers(key, len(self), self.label))
        return self._decode_table(self.starts[rows], self.stops[rows], rows.tolist())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 4096):
            yield from self[start : start + 4096]

    def _decode_table(self, starts: Offsets, stops: Offsets, rows: Sequence[int]) -> list[str]:
        table = tables.Table(self.data, np.ascontiguousarray(starts), np.ascontiguousarray(stops))
        try:
            return tables.decode(table)
        except UnicodeDecodeError:
            return [self._decode(row) for row in rows]

    def _decode(self, row: int) -> str:
        data = self.raw(row)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.lossy:
                return data.decode("utf-8", "replace")
            raise Corrupt(
                "a string is not valid UTF-8",
                path=self.label,
                field=f"string {row}",
                expected="UTF-8",
                found=f"byte 0x{data[error.start]:02x}",
                remedy="open with lossy=True to replace it",
            ) from None

    def view(self, rows: Sequence[int] | range | NDArray[Any]) -> Strings:
        """The strings of some rows, by a range, indices or a mask; the bytes are shared. IndexError beyond the last."""
        found = row_numbers(rows, len(self), self.label)
        index = as_slice(found) if isinstance(found, range) else found
        return type(self)(self.data, self.starts[index], self.stops[index], label=self.label, lossy=self.lossy)

    def _by_value(self, protocol: Any) -> Any:
        """The strings alone: their bytes may lie between others, of a whole file."""
        table = self.table
        stops = np.cumsum(table.stops - table.starts)
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if len(stops) else stops
        return _made_strings, (np.asarray(tables.join(table)), starts, stops, self.label, self.lossy)

    @staticmethod
    def concat(many: Sequence[Strings]) -> Strings:
        """Several, one after the other."""
        shifts = np.cumsum([0] + [len(s.data) for s in many[:-1]])
        return Strings(
            np.concatenate([s.data for s in many]),
            np.concatenate([s.starts + shift for s, shift in zip(many, shifts)]),
            np.concatenate([s.stops + shift for s, shift in zip(many, shifts)]),
            label=many[0].label,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Strings) else False
        same = np.array_equal(self.stops - self.starts, other.stops - other.starts)
        return same and np.array_equal(tables.join(self.table), tables.join(other.table))

    __hash__ = None  # type: ignore[assignment]


def _made_strings(data: NDArray[np.uint8], starts: Offsets, stops: Offsets, label: str, lossy: bool) -> Strings:
    return Strings(data, starts, stops, label=label, lossy=lossy)


class Vocab(Part):
    """The words of a collection: row ``i`` of the main column belongs to word ``i``."""

    def __init__(self, words: Strings | Iterable[str], *, subwords: Subwords | None = None) -> None:
        self.words = words if isinstance(words, Strings) else Strings.from_words(words, label="vocab")
        self.subwords = subwords
        self._index: Once[tables.Index] = Once()

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __getitem__(self, key: Any) -> Any:
        """The word of a row, or a list of words of a slice or of indices."""
        return self.words[key]

    def _lookup(self) -> tables.Index:
        return self._index.get(lambda: tables.build_index(self.words.table))

    @property
    def duplicates(self) -> NDArray[np.int64]:
        """The rows whose word stands in an earlier row too; look-ups give the earlier one."""
        return self._lookup().duplicates

    def get(self, word: str, default: int | None = None) -> int | None:
        """The row of a word, or ``default``."""
        row = self._lookup().find(word)
        return default if row < 0 else row

    def index(self, word: str) -> int:
        """The row of a word; KeyError where it is not in the vocabulary."""
        row = self._lookup().find(word)
        if row < 0:
            raise UnknownWord(f"{word!r} is not in the vocabulary")
        return row

    def indices(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The rows of many words, -1 for those not in the vocabulary."""
        return self._lookup().find_many(list(words), default_threads())

    def near(self, word: str, k: int = 5) -> list[str]:
        """Words spelled like one, the likest first: those that share its letter pairs, then by their difference."""
        options = {"min_n": 2, "max_n": 2, "exponent": 16}
        wanted = ngrams.bucket_indices(tables.pack([word]), **options).indices
        marks = np.zeros(1 << 16, np.int32)
        marks[wanted] = 1
        best: list[tuple[float, int]] = []
        for start in range(0, len(self.words), 1 << 17):
            table = self.words.table.slice(start, start + (1 << 17))
            found = ngrams.bucket_indices(table, **options)
            shared = np.concatenate([[0], np.cumsum(marks[found.indices])])
            counts = np.diff(found.splits)
            score = 2 * (shared[found.splits[1:]] - shared[found.splits[:-1]]) / np.maximum(1, counts + len(wanted))
            top = np.argsort(-score, kind="stable")[: 10 * k]
            best.extend((float(score[i]), start + int(i)) for i in top if score[i] > 0)
        best = sorted(best, key=lambda pair: -pair[0])[: 10 * k]
        words = [self.words[row] for _, row in best]
        ranked = sorted(words, key=lambda other: -SequenceMatcher(None, word.lower(), other.lower()).ratio())
        return [other for other in dict.fromkeys(ranked) if other != word][:k]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.get(word) is not None

    def view(self, rows: Sequence[int] | range | NDArray[Any]) -> Vocab:
        """The vocabulary of some rows. Subwords belong to the whole and are left behind."""
        return Vocab(self.words.view(rows))


def as_vocab(value: Any, rows: int) -> Vocab | None:
    """A vocabulary from words or a vocabulary, one a row."""
    if value is None:
        return None
    vocab = (
        value if isinstance(value, Vocab) else Vocab(value if isinstance(value, Strings) else one_a_row("vocab", value))
    )
    if len(vocab) != rows:
        raise InputError(f"the vocabulary has {len(vocab)} words for {rows} rows; give one word a row")
    return vocab
