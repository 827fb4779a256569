"""What the page needs to know of a collection: names, the roles of record fields, columns to colour and filter by."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.records import Record

ROLES: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "title", "word", "label", "heading", "id"),
    "image": ("image_url", "image", "thumbnail", "thumbnail_url", "thumb", "img", "picture"),
    "link": ("card_url", "url", "link", "href", "page_url", "permalink"),
    "text": ("summary", "description", "abstract", "text", "body", "content", "snippet"),
}
MOST_FIELDS = 12
MOST_VALUES = 400  # distinct values of a category; beyond that a list is no filter
FEW_NUMBERS = 12  # numbers with no more distinct values than this are categories
MISSING = 65535
NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Field:
    """A record field as a column: category codes (uint16, MISSING where absent) or numbers (float32, NaN)."""

    name: str
    kind: str
    column: NDArray[np.uint16] | NDArray[np.float32]
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()

    def about(self, file: str) -> dict[str, Any]:
        """What site.json says of it."""
        if self.kind == "category":
            return {"name": self.name, "kind": self.kind, "values": self.values, "counts": self.counts, "file": file}
        known = self.column[~np.isnan(self.column)]
        low, high = np.percentile(known, [1, 99]) if len(known) else (0.0, 1.0)
        return {"name": self.name, "kind": self.kind, "low": float(low), "high": float(high), "file": file}

    def chosen(self, wanted: Iterable[str]) -> NDArray[np.bool_]:
        """Rows that a filter leaves: one of the values, or a range ``low..high``."""
        wanted = list(wanted)
        if self.kind == "number":
            low, _, high = (wanted[0] if wanted else "..").partition("..")
            try:
                bounds = float(low or "-inf"), float(high or "inf")
            except ValueError:
                raise InputError(f"a filter of {self.name} takes low..high, not {wanted[0][:40]!r}") from None
            return (self.column >= bounds[0]) & (self.column <= bounds[1])
        codes = [self.values.index(value) for value in wanted if value in self.values]
        return np.isin(self.column, codes)


class Roles:
    """Which record field is the name, picture, link and text; as told, else by common names."""

    def __init__(self, collection: Collection, told: Mapping[str, str | None] | None = None) -> None:
        told = told or {}
        unknown = set(told) - set(ROLES)
        if unknown:
            raise InputError(f"unknown role {', '.join(sorted(unknown))}; there are {', '.join(ROLES)}")
        first = collection.records[0] if collection.records is not None and collection.rows else {}
        self.of: dict[str, str] = {}
        for role, candidates in ROLES.items():
            asked = told.get(role)
            if asked and asked not in first:
                raise InputError(
                    f"records have no field {asked!r} for the {role}; there are {', '.join(first) or 'none'}"
                )
            fit = (c for c in candidates if c in first and c not in self.of.values() and _fits(role, first[c]))
            found = asked or next(fit, None)
            if found:
                self.of[role] = found
        if collection.records is None and collection.vocab is not None:
            self.of = {"name": "word"}
        elif collection.records is None and collection.ids is not None:
            self.of = {"name": "id"}


def _fits(role: str, value: Any) -> bool:
    if role in ("image", "link"):
        return isinstance(value, str) and value.lower().startswith(("http://", "https://"))
    return isinstance(value, (str, int)) and not isinstance(value, bool)


class Entries:
    """Records and names of a collection, whatever it has: records, words, ids, or row numbers alone."""

    def __init__(self, collection: Collection, roles: Roles) -> None:
        self.collection = collection
        self.roles = roles.of

    def records(self, start: int, stop: int) -> Iterator[Record]:
        """Records ``start`` to ``stop``, as JSON can hold them."""
        c = self.collection
        if c.records is not None:
            for record in c.records.iterate(start, stop):
                yield {str(key): _plain(value) for key, value in record.items()}
        else:
            for row in range(start, stop):
                yield self._made(row)

    def _made(self, row: int) -> Record:
        c = self.collection
        if c.vocab is not None:
            return {"word": c.vocab[row]}
        if c.ids is not None:
            return {"id": _plain(c.ids[row])}
        return {}

    def name(self, record: Record, row: int) -> str:
        """The name of a row in one line."""
        key = self.roles.get("name")
        value = record.get(key) if key else None
        if value in (None, "") and self.collection.vocab is not None:
            value = self.collection.vocab[row]
        return one_line(as_text(value))[:NAME_LENGTH]


def one_line(text: str) -> str:
    """Text without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def as_text(value: Any) -> str:
    """A value of a record as the page shows it."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(as_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _plain(value: Any) -> Any:
    """A value JSON can hold: NumPy scalars as Python's, NaN as null, the rest as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(v) for v in value]
    return str(value)


class _Collector:
    """One field while records go by: codes of its values until they are too many, numbers until one is not."""

    def __init__(self, rows: int) -> None:
        self.codes: dict[str, int] | None = {}
        self.column = np.full(rows, MISSING, np.uint16)
        self.numbers: NDArray[np.float32] | None = np.full(rows, np.nan, np.float32)

    def add(self, row: int, value: Any) -> None:
        if value is None or value == "":
            return
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if self.numbers is not None:
            if number and abs(value) < 1e38:
                self.numbers[row] = value
            else:
                self.numbers = None
        if self.codes is not None:
            text = as_text(value)
            code = self.codes.setdefault(text, len(self.codes))
            self.column[row] = code
            if len(self.codes) > MOST_VALUES or len(text) > 80:
                self.codes = None

    def field(self, name: str) -> Field | None:
        rows = len(self.column)
        distinct = len(self.codes) if self.codes is not None else math.inf
        if self.numbers is not None and distinct > FEW_NUMBERS:
            return Field(name, "number", self.numbers)
        if self.codes is None or not 2 <= distinct <= max(FEW_NUMBERS, rows // 2):
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
        for key, value in record.items():
            if key in told:
                continue
            if key not in found:
                if len(found) >= 4 * MOST_FIELDS:
                    continue
                found[key] = _Collector(count)
            found[key].add(row, value)
    fields = [field for key, one in found.items() if (field := one.field(str(key))) is not None]
    # Categories with few values make the clearest map: they come first.
    fields.sort(key=lambda f: (f.kind != "category", len(f.values) > FEW_NUMBERS))
    return fields[:MOST_FIELDS]
