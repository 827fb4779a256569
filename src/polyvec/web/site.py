"""What the page needs to know of a collection: names, ids, and the roles of record fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.core.plain import as_text, plain, with_id
from polyvec.core.records import Record

ROLES: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "title", "word", "label", "heading", "id"),
    "image": ("image_url", "image", "thumbnail", "thumbnail_url", "thumb", "img", "picture"),
    "link": ("card_url", "url", "link", "href", "page_url", "permalink"),
    "text": ("summary", "description", "abstract", "text", "body", "content", "snippet"),
}
ROLE_RECORDS = 256  # records that are looked at for roles: the first alone may lack what all others have
NAME_LENGTH = 200
STEP = 4096  # rows whose ids are read at once


class Roles:
    """Which record field is the name, picture, link and text; as told, else by common names."""

    def __init__(self, collection: Collection, told: Mapping[str, str | None] | None = None) -> None:
        told = told or {}
        unknown = set(told) - set(ROLES)
        if unknown:
            raise InputError(f"unknown role {', '.join(sorted(unknown))}; there are {', '.join(ROLES)}")
        seen = _first_values(collection)
        self.of: dict[str, str] = {}
        for role, candidates in ROLES.items():
            asked = told.get(role)
            if asked and asked not in seen:
                raise InputError(
                    f"records have no field {asked!r} for the {role}; there are {', '.join(seen) or 'none'}"
                )
            fit = (c for c in candidates if c in seen and c not in self.of.values() and _fits(role, seen[c]))
            found = asked or next(fit, None)
            if found:
                self.of[role] = found
        if collection.records is None and collection.vocab is not None:
            self.of = {"name": "word"}
        elif collection.records is None and collection.ids is not None:
            self.of = {"name": "id"}


def _first_values(collection: Collection) -> dict[str, Any]:
    """The fields of the first records, each with the first value that says something."""
    seen: dict[str, Any] = {}
    if collection.records is not None:
        for record in collection.records.iterate(0, min(ROLE_RECORDS, collection.rows)):
            for key, value in (record or {}).items():
                if seen.get(str(key)) in (None, ""):
                    seen[str(key)] = plain(value)
    return seen


def _fits(role: str, value: Any) -> bool:
    if role in ("image", "link"):
        return isinstance(value, str) and value.lower().startswith(("http://", "https://"))
    return isinstance(value, (str, int)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row as the page shows it: its name in one line, its id (None without ids), its record with the id in it."""

    name: str
    id: str | int | None
    record: Record


class Entries:
    """Rows of a collection as entries, whatever it has: records, words, ids, or row numbers alone."""

    def __init__(self, collection: Collection, roles: Roles) -> None:
        self.collection = collection
        self.roles = roles.of

    def read(self, start: int, stop: int) -> Iterator[Entry]:
        """Entries ``start`` to ``stop``, as JSON can hold them."""
        for first in range(start, stop, STEP):
            last = min(first + STEP, stop)
            for row, record, given in zip(range(first, last), self._records(first, last), self.ids(first, last)):
                yield Entry(self._name(record, row, given), given, with_id(record, given))

    def one(self, row: int) -> Entry:
        """The entry of one row."""
        return next(self.read(row, row + 1))

    def ids(self, start: int, stop: int) -> list[Any]:
        """Ids as JSON and JavaScript hold them, None where the collection has none."""
        held = self.collection.ids
        return [None] * (stop - start) if held is None else [plain(value) for value in held[start:stop]]

    def _records(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        c = self.collection
        if c.records is not None:
            for record in c.records.iterate(start, stop):
                yield {str(key): plain(value) for key, value in (record or {}).items()}
        else:
            for row in range(start, stop):
                yield {} if c.vocab is None else {"word": c.vocab[row]}

    def _name(self, record: Record, row: int, given: Any) -> str:
        """The record's name, else the word, else the id."""
        key = self.roles.get("name")
        named = one_line(as_text(record.get(key))) if key else ""
        if not named and self.collection.vocab is not None:
            named = one_line(as_text(self.collection.vocab[row]))
        return (named or one_line(as_text(given)))[:NAME_LENGTH]


def one_line(text: str) -> str:
    """Text without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
