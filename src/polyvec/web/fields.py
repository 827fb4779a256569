"""Record fields as columns that the page colours and filters by: categories or numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.core.plain import as_text, plain
from polyvec.core.records import Record
from polyvec.web.site import Entries

MOST_FIELDS = 12
MOST_VALUES = 400  # distinct values of a category; beyond that a list is no filter
FEW_NUMBERS = 12  # numbers with no more distinct values than this are categories
MISSING = 65535
RAMP = (1, 99)  # percentiles between which colours change: a single outlier would leave the rest one colour
COUNTLESS = {"id", "year", "date", "code", "zip", "key", "number", "timestamp"}  # numbers that count nothing


@dataclass(frozen=True, slots=True)
class Field:
    """A record field as a column: category codes (uint16, MISSING where absent) or numbers (floats, NaN)."""

    name: str
    kind: str
    column: NDArray[Any]
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()

    def about(self, file: str) -> dict[str, Any]:
        """What site.json says of it. ``low`` and ``high`` are the true ends; colours change within ``ramp``."""
        if self.kind == "category":
            return {"name": self.name, "kind": self.kind, "values": self.values, "counts": self.counts, "file": file}
        known = self.column[np.isfinite(self.column)].astype(np.float64)
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        ramp = [float(end) for end in np.percentile(known, RAMP, method="nearest")] if len(known) else [low, high]
        if ramp[0] == ramp[1]:
            ramp = [low, high]
        return {
            "name": self.name,
            "kind": self.kind,
            "low": low,
            "high": high,
            "ramp": ramp,
            "file": file,
            "wide": self.column.dtype == np.float64,
            "plain": self._plain(known),
        }

    def _plain(self, known: NDArray[np.float64]) -> bool:
        """Whether its numbers are written without thousands separators: years, ids, codes."""
        whole = len(known) > 0 and bool((known == np.rint(known)).all())
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", self.name)
        return whole and (float(np.abs(known).max()) < 10_000 or any(word.lower() in COUNTLESS for word in words))

    def packed(self, rows: NDArray[np.int64] | None = None) -> bytes:
        """The bytes of its file, of all rows or those numbered."""
        column = self.column if rows is None else self.column[rows]
        return column.astype(column.dtype.newbyteorder("<")).tobytes()

    def chosen(self, wanted: Iterable[str]) -> NDArray[np.bool_]:
        """Rows that a filter leaves: one of the values or, of numbers, in a range ``low..high``; null or nothing is a
        missing one."""
        wanted = list(wanted)
        if self.kind == "number":
            return np.asarray(np.logical_or.reduce([self._within(text) for text in wanted or [".."]]), bool)
        codes = [self.values.index(value) for value in wanted if value in self.values]
        if any(value == "" or (value.lower() == "null" and value not in self.values) for value in wanted):
            codes.append(MISSING)
        return np.isin(self.column, codes)

    def _within(self, text: str) -> NDArray[np.bool_]:
        if text.lower() in ("", "null"):
            return np.asarray(np.isnan(self.column), bool)
        low, dots, high = text.partition("..")
        try:
            least = float(low or "-inf")
            most = float(high or "inf") if dots else least
        except ValueError:
            raise InputError(f"a filter of {self.name} takes a number or low..high, not {text[:40]!r}") from None
        return np.asarray((self.column >= least) & (self.column <= most), bool)


class _Collector:
    """One field while records go by: codes of its values until they are too many, numbers until one is not."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.codes: dict[str, int] | None = {}
        self.column: NDArray[np.uint16] | None = np.full(rows, MISSING, np.uint16)
        self.numeric = True
        self.numbers: NDArray[np.float64] | None = None

    def add(self, row: int, value: Any) -> None:
        if value is None or value == "":
            return
        if self.numeric:
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not _beyond(value):
                if self.numbers is None:
                    self.numbers = np.full(self.rows, np.nan)
                self.numbers[row] = value
            else:
                self.numeric, self.numbers = False, None
        if self.codes is not None and self.column is not None:
            text = as_text(plain(value))
            code = self.codes.setdefault(text, len(self.codes))
            self.column[row] = code
            if len(self.codes) > MOST_VALUES or len(text) > 80:
                self.codes, self.column = None, None

    def field(self, name: str) -> Field | None:
        distinct = len(self.codes) if self.codes is not None else math.inf
        if self.numbers is not None and distinct > FEW_NUMBERS:
            return Field(name, "number", _narrowed(self.numbers))
        if self.codes is None or self.column is None or not 2 <= distinct <= max(FEW_NUMBERS, self.rows // 2):
            return None
        known = self.column[self.column != MISSING]
        counts = np.bincount(known, minlength=len(self.codes))
        order = np.argsort(-counts, kind="stable")
        rank = np.full(MISSING + 1, MISSING, np.uint16)
        rank[order] = np.arange(len(order))
        values = list(self.codes)
        return Field(
            name, "category", rank[self.column], tuple(values[i] for i in order), tuple(map(int, counts[order]))
        )


def _beyond(value: float) -> bool:
    """Whether a whole number is one that a float would round: an id, not a quantity."""
    return isinstance(value, int) and isinstance(plain(value), str)


def _narrowed(numbers: NDArray[np.float64]) -> NDArray[Any]:
    """float32 where that holds every value exactly: a filter up to 0.1 must find 0.1."""
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), numbers, equal_nan=True) else numbers


def survey(entries: Entries, rows: NDArray[np.int64] | None = None) -> list[Field]:
    """The fields worth colouring and filtering by, over all rows or those numbered."""
    collection = entries.collection
    if collection.records is None:
        return []
    count = collection.rows if rows is None else len(rows)
    told = set(entries.roles.values())
    found: dict[str, _Collector] = {}
    records: Iterable[Record]
    records = (
        collection.records.iterate(0, collection.rows) if rows is None else (collection.records[int(r)] for r in rows)
    )
    for row, record in enumerate(records):
        for key, value in (record or {}).items():
            if str(key) in told:
                continue
            if key not in found:
                if len(found) >= 4 * MOST_FIELDS:
                    continue
                found[key] = _Collector(count)
            found[key].add(row, _scalar(value))
    fields = [field for key, one in found.items() if (field := one.field(str(key))) is not None]
    # Categories with few values make the clearest map: they come first.
    fields.sort(key=lambda f: (f.kind != "category", len(f.values) > FEW_NUMBERS))
    return fields[:MOST_FIELDS]


def _scalar(value: Any) -> Any:
    """A value as Python holds it; NaN is no value, infinity is one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return value if isinstance(value, (str, int)) or value is None else plain(value)
