"""Strings and Vocab: words as bytes with offsets, looked up through an index built on first use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import Corrupt, InputError

Offsets = NDArray[np.int64]


class Strings:
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
        encoded = [word.encode("utf-8") if isinstance(word, str) else bytes(word) for word in words]
        stops = np.cumsum([len(word) for word in encoded], dtype=np.int64) if encoded else np.empty(0, np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if encoded else stops
        return cls(b"".join(encoded), starts, stops, label=label)

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, row: int) -> bytes:
        """The bytes of one string."""
        return self.data[self.starts[row] : self.stops[row]].tobytes()

    def __getitem__(self, key: Any) -> Any:
        """A string by row, a list of strings by slice or indices."""
        if isinstance(key, slice):
            return [self._decode(row) for row in range(*key.indices(len(self)))]
        if isinstance(key, (int, np.integer)):
            row = int(key) + (len(self) if key < 0 else 0)
            if not 0 <= row < len(self):
                raise IndexError(f"row {key} of {len(self)}")
            return self._decode(row)
        return [self._decode(int(row)) for row in key]

    def __iter__(self) -> Iterator[str]:
        return (self._decode(row) for row in range(len(self)))

    def _decode(self, row: int) -> str:
        data = self.raw(row)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.lossy:
                return data.decode("utf-8", "replace")
            raise Corrupt(
                "a string is not valid UTF-8", path=self.label, field=f"string {row}", expected="UTF-8",
                found=f"byte 0x{data[error.start]:02x}", remedy="open with lossy=True to replace it",
            ) from None  # fmt: skip

    def view(self, rows: Sequence[int] | range | NDArray[Any]) -> Strings:
        """The strings of some rows; the bytes are shared."""
        index = slice(rows.start, rows.stop, rows.step) if isinstance(rows, range) else np.asarray(rows, np.int64)
        return type(self)(self.data, self.starts[index], self.stops[index], label=self.label, lossy=self.lossy)

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
        return all(self.raw(row) == other.raw(row) for row in range(len(self)))

    __hash__ = None  # type: ignore[assignment]


class Subwords(Protocol):
    """Maps a word that is not in the vocabulary to rows of the subword column."""

    def indices(self, word: str) -> NDArray[np.int64]: ...


class Vocab:
    """The words of a collection: row ``i`` of the main column belongs to word ``i``."""

    def __init__(self, words: Strings | Iterable[str], *, subwords: Subwords | None = None) -> None:
        self.words = words if isinstance(words, Strings) else Strings.from_words(words, label="vocab")
        self.subwords = subwords
        self._index: dict[bytes, int] | None = None

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __getitem__(self, key: Any) -> Any:
        """The word of a row, or a list of words of a slice or of indices."""
        return self.words[key]

    def _lookup(self) -> dict[bytes, int]:
        if self._index is None:
            index: dict[bytes, int] = {}
            for row in range(len(self.words)):
                index.setdefault(self.words.raw(row), row)  # of duplicates the first is meant
            self._index = index
        return self._index

    def get(self, word: str, default: int | None = None) -> int | None:
        """The row of a word, or ``default``."""
        return self._lookup().get(word.encode("utf-8"), default)

    def index(self, word: str) -> int:
        """The row of a word; KeyError where it is not in the vocabulary."""
        row = self.get(word)
        if row is None:
            raise KeyError(f"{word!r} is not in the vocabulary")
        return row

    def indices(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The rows of many words, -1 for those not in the vocabulary."""
        lookup = self._lookup()
        return np.array([lookup.get(word.encode("utf-8"), -1) for word in words], np.int64)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.get(word) is not None

    def view(self, rows: Sequence[int] | range | NDArray[Any]) -> Vocab:
        """The vocabulary of some rows. Subwords belong to the whole and are left behind."""
        return Vocab(self.words.view(rows))


def as_vocab(value: Any, rows: int) -> Vocab | None:
    """A vocabulary from words or a vocabulary, one a row."""
    if value is None:
        return None
    vocab = value if isinstance(value, Vocab) else Vocab(value)
    if len(vocab) != rows:
        raise InputError(f"the vocabulary has {len(vocab)} words for {rows} rows; give one word a row")
    return vocab
