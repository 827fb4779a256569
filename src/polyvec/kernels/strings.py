"""Tables of strings: words that stay as bytes where they are, a start and a stop each.

Walking a file's table, checking its UTF-8 and building the index over it run compiled where possible; the
Python reference beside each gives the same results. No length is trusted: a string that does not fit ends the walk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.threads import default_threads

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

BLANKS = b" \t\r\v\f"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """`len(starts)` strings: string i is data[starts[i] : stops[i]]."""

    data: Bytes
    starts: Longs
    stops: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.stops[row]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        for row in range(len(self)):
            yield self[row]

    def slice(self, start: int, stop: int) -> Table:
        """The strings start..stop, over the same bytes."""
        return Table(self.data, self.starts[start:stop], self.stops[start:stop])

    def take(self, rows: npt.ArrayLike) -> Table:
        """The strings at `rows`, over the same bytes."""
        at = np.asarray(rows, np.int64)
        return Table(self.data, self.starts[at], self.stops[at])

    @property
    def total(self) -> int:
        """How many bytes the strings have together."""
        return int((self.stops - self.starts).sum())


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk found: the strings that fit, and where it ended (at the first that does not, if any).

    `invalid` and `empty` tell whether a string is not UTF-8 and whether one has no bytes, where the walk looked.
    """

    strings: Table
    end: int
    invalid: bool = True
    empty: bool = True


class Index(Protocol):
    """Rows by word. Equal words: the first wins, the others are `duplicates` (rows, ascending)."""

    def find(self, word: str | bytes) -> int: ...
    def find_many(self, words: list[str], threads: int = 1) -> Longs: ...
    def find_table(self, data: Bytes, starts: Longs, stops: Longs) -> Longs: ...
    @property
    def duplicates(self) -> Longs: ...
    @property
    def memory(self) -> int: ...


def pack(words: Sequence[str | bytes]) -> Table:
    """Python strings as a table of UTF-8; a lone surrogate is a ValueError."""
    module = native()
    if module is not None:
        return Table(*module.pack_strings(list(words)))
    parts = [word if isinstance(word, bytes) else word.encode() for word in words]
    stops = np.cumsum(np.fromiter((len(part) for part in parts), np.int64, len(parts)))
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if parts else stops
    return Table(np.frombuffer(b"".join(parts), np.uint8), starts, stops)


def join(strings: Table, *, prefix: bool = False) -> Bytes:
    """The strings one after the other; with `prefix` each behind its length as u32."""
    module = native()
    if module is not None:
        joined: Bytes = module.join_table(strings.data, strings.starts, strings.stops, prefix)
        return joined
    parts = (len(s).to_bytes(4, "little") + s if prefix else s for s in strings)
    return np.frombuffer(b"".join(parts), np.uint8)


def decode(strings: Table) -> list[str]:
    """The strings as Python strings; invalid UTF-8 is a UnicodeDecodeError."""
    module = native()
    if module is not None:
        words: list[str] = module.decode_strings(strings.data, strings.starts, strings.stops)
        return words
    return [s.decode() for s in strings]


def walk(data: Bytes, *, start: int, stop: int, count: int, gap: int = 0) -> Walk:
    """Table of u32 length + bytes, each followed by `gap` bytes, from `start`; none reaches beyond `stop`."""
    module = native()
    if module is not None:
        starts, stops, end, invalid, empty = module.walk_table(data, start, stop, min(count, 2**63), gap)
        return Walk(Table(data, starts, stops), end, invalid, empty)
    found: list[tuple[int, int]] = []
    at = start
    view = data.data
    while len(found) < count and stop - at >= 4 + gap:
        length = int.from_bytes(view[at : at + 4], "little")
        if length > stop - at - 4 - gap:
            break
        found.append((at + 4, at + 4 + length))
        at += 4 + length + gap
    table = _table(data, found)
    return Walk(table, at, not all(map(_is_utf8, table)), bool((table.starts == table.stops).any()))


def scan(data: Bytes, *, start: int, stop: int, count: int, delimiter: int, gap: int, newlines: bool) -> Walk:
    """Words that end with `delimiter`, each followed by `gap` bytes; `newlines` skips those before a word."""
    module = native()
    if module is not None:
        most = min(count, 2**63)
        starts, stops, end, _ = module.scan_words(data, start, stop, most, delimiter, gap, newlines)
        return Walk(Table(data, starts, stops), end)
    found: list[tuple[int, int]] = []
    at = start
    view = data.data
    mark = bytes([delimiter])
    while len(found) < count:
        begin = at
        while newlines and begin < stop and view[begin] == 10:
            begin += 1
        end = _find(view, mark, begin, stop)
        if end < 0 or gap > stop - end - 1:
            break
        found.append((begin, end))
        at = end + 1 + gap
    return Walk(_table(data, found), at)


def _find(view: memoryview, mark: bytes, start: int, stop: int) -> int:
    for at in range(start, stop, 4096):
        found = bytes(view[at : min(stop, at + 4096)]).find(mark)
        if found >= 0:
            return at + found
    return -1


def _table(data: Bytes, found: list[tuple[int, int]]) -> Table:
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return Table(data, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))


def find_invalid(strings: Table) -> Longs:
    """The rows whose bytes are not UTF-8, ascending."""
    module = native()
    if module is not None:
        bad: Longs = module.find_invalid(strings.data, strings.starts, strings.stops)
        return bad
    return np.array([row for row, word in enumerate(strings) if not _is_utf8(word)], np.int64)


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


def replace_invalid(strings: Table, rows: Longs) -> Table:
    """The same table with the words at `rows` decoded with U+FFFD for what is not UTF-8."""
    fixed = pack([strings[int(row)].decode(errors="replace") for row in rows])
    data = np.concatenate([strings.data, fixed.data])
    starts, stops = strings.starts.copy(), strings.stops.copy()
    starts[rows] = fixed.starts + len(strings.data)
    stops[rows] = fixed.stops + len(strings.data)
    return Table(data, starts, stops)


def build_index(strings: Table) -> Index:
    """An index over the strings' bytes, built at once; seeded, so that no file can make its words collide."""
    module = native()
    if module is not None:
        seed = int.from_bytes(os.urandom(8), "little")
        index: Index = module.WordIndex(strings.data, strings.starts, strings.stops, seed, default_threads())
        return index
    return DictIndex(strings)


class DictIndex:
    """The reference of the compiled index: a dict from bytes to row."""

    def __init__(self, strings: Table) -> None:
        self._rows: dict[bytes, int] = {}
        again = []
        for row, word in enumerate(strings):
            if self._rows.setdefault(word, row) != row:
                again.append(row)
        self._duplicates = np.array(again, np.int64)

    def find(self, word: str | bytes) -> int:
        if isinstance(word, str):
            try:
                word = word.encode()
            except UnicodeEncodeError:
                return -1
        return self._rows.get(word, -1)

    def find_many(self, words: list[str], threads: int = 1) -> Longs:
        return np.fromiter((self.find(word) for word in words), np.int64, len(words))

    def find_table(self, data: Bytes, starts: Longs, stops: Longs) -> Longs:
        words = Table(data, starts, stops)
        return np.fromiter((self._rows.get(word, -1) for word in words), np.int64, len(words))

    @property
    def duplicates(self) -> Longs:
        return self._duplicates

    @property
    def memory(self) -> int:
        return len(self._rows) * 100  # about what a dict of bytes takes


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a text embedding: the words, where each line's first number is, where the scan ended.

    `fields` tells how many fields the line there had if it had too few, else -1.
    """

    strings: Table
    numbers: Longs
    end: int
    fields: int


def scan_text(data: Bytes, *, start: int, stop: int, count: int, dim: int) -> Lines:
    """Lines "word v1 .. vdim"; the word is all that stands before the last `dim` fields, spaces included."""
    module = native()
    if module is not None:
        starts, stops, numbers, end, _, fields = module.scan_text(data, start, stop, min(count, 2**63), dim)
        return Lines(Table(data, starts, stops), numbers, end, fields)
    found: list[tuple[int, int]] = []
    firsts: list[int] = []
    at, few = start, -1
    view = data.data
    while at < stop and len(found) < count:
        newline = _find(view, b"\n", at, stop)
        end, after = (newline, newline + 1) if newline >= 0 else (stop, stop)
        line = bytes(view[at:end]).rstrip(BLANKS)
        if not line:
            at = after
            continue
        right, fields, first = len(line), 0, len(line)
        while fields < dim and right > 0:
            left = right
            while left > 0 and line[left - 1] not in BLANKS:
                left -= 1
            first, fields, right = left, fields + 1, left
            while right > 0 and line[right - 1] in BLANKS:
                right -= 1
            if right == left:
                break
        if fields < dim or first == 0:
            few = fields
            break
        found.append((at, at + right))
        firsts.append(at + first)
        at = after
    return Lines(_table(data, found), np.array(firsts, np.int64), at, few)


def parse_rows(data: Bytes, *, stop: int, numbers: Longs, out: Floats) -> int:
    """Fill `out` with the numbers at each offset, rounded once to float32; the flat index of a bad one, or -1."""
    module = native()
    if module is not None:
        return int(module.parse_rows(data, stop, numbers, out))
    view = data.data
    dim = out.shape[1]
    for row, at in enumerate(numbers.tolist()):
        newline = _find(view, b"\n", at, stop)
        fields = bytes(view[at : newline if newline >= 0 else stop]).translate(_BLANK_TO_SPACE).split()
        for i in range(dim):
            value = _parse_float(fields[i]) if i < len(fields) else None
            if value is None:
                return int(row * dim + i)
            out[row, i] = value
    return -1


_BLANK_TO_SPACE = bytes(32 if c in BLANKS else c for c in range(256))
_NUMBER = frozenset(b"0123456789.eE+-")


def _parse_float(text: bytes) -> float | None:
    if not _NUMBER.issuperset(text) and text.lstrip(b"+-").lower() not in (b"inf", b"infinity", b"nan"):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value) or value == 0:
        return value
    with np.errstate(over="ignore", under="ignore"):
        single = float(np.float32(value))
    # A float64 halfway between two float32s was rounded once already: let the text itself decide.
    if math.isfinite(single) and single != value:
        other = float(np.nextafter(np.float32(single), np.float32(math.copysign(math.inf, value - single))))
        if math.isfinite(other) and Fraction(single) + Fraction(other) == 2 * Fraction(value):
            exact = Fraction(text.decode())
            if exact != Fraction(value):
                return max(single, other) if exact > Fraction(value) else min(single, other)
    return single


def format_rows(strings: Table, rows: Floats) -> bytes:
    """ "word v1 .. vdim" lines, every number the shortest text that reads back to the same float32."""
    module = native()
    if module is not None:
        text: bytes = module.format_rows(strings.data, strings.starts, strings.stops, rows)
        return text
    lines = (word + b"".join(b" " + _format_float(x) for x in row) for word, row in zip(strings, rows))
    return b"".join(line + b"\n" for line in lines)


def weave_rows(strings: Table, rows: Bytes, *, middle: bytes, tail: bytes = b"") -> bytes:
    """Each word, `middle`, its row of bytes (n, width), `tail`."""
    module = native()
    if module is not None:
        woven: bytes = module.weave_rows(strings.data, strings.starts, strings.stops, rows, middle, tail)
        return woven
    return b"".join(word + middle + row.tobytes() + tail for word, row in zip(strings, rows))


def _format_float(value: Any) -> bytes:
    if np.isnan(value):
        return b"-nan" if np.signbit(value) else b"nan"
    if np.isinf(value):
        return b"inf" if value > 0 else b"-inf"
    science = np.format_float_scientific(value, unique=True, trim="-", exp_digits=2)
    fixed = np.format_float_positional(value, unique=True, trim="-")
    if abs(value) >= 2**24:  # whole numbers: the shortest digits padded with zeros are not the number itself
        fixed = ("-" if value < 0 else "") + str(abs(int(value)))
    return (fixed if len(fixed) <= len(science) else science).encode()


def walk_strings(data: Bytes, count: int, width: int) -> tuple[Longs, Longs]:
    """Starts and stops of up to ``count`` strings, each after a little-endian length of ``width`` (2 or 4) bytes.

    Fewer come back where the next one would reach past the end; nothing beyond ``data`` is read.

    >>> [part.tolist() for part in walk_strings(np.frombuffer(b"\\1\\0a\\2\\0bc\\x09\\0", np.uint8), 3, 2)]
    [[2, 5], [3, 7]]
    """
    count = min(count, len(data) // width)
    starts = np.empty(count, np.int64)
    stops = np.empty(count, np.int64)
    module = native()
    found = (
        _walk_prefixed(data, width, starts, stops)
        if module is None
        else module.walk_strings(data, width, starts, stops)
    )
    return starts[:found], stops[:found]


def _walk_prefixed(data: Bytes, width: int, starts: Longs, stops: Longs) -> int:
    raw, at, end = data.tobytes(), 0, len(data)
    for number in range(len(starts)):
        start = at + width
        stop = start + int.from_bytes(raw[at:start], "little")
        if start > end or stop > end:
            return number
        starts[number], stops[number] = start, stop
        at = stop
    return len(starts)
