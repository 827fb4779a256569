"""A collection behind a server: prepared once in bounded memory, then asked for names, records and neighbours."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError, PolyvecError
from polyvec.core.plain import as_text
from polyvec.neighbors.search import search
from polyvec.web.fields import Field, survey
from polyvec.web.projection import Plane, project
from polyvec.web.site import Entries, Entry, Roles

MOST_POINTS = 100_000  # points of the map; of larger collections an even sample is shown
MOST_LISTED = 300_000  # rows whose names and fields are held; of larger collections those of the sample
MOST_K = 501
METRIC = "cosine"  # of the page: its map and its bars show angles, published or served
MOST_ROWS = 600  # rows one request may ask records of

Embed = Callable[[str], NDArray[np.float32]]


class TooSlow(PolyvecError):
    """A search took longer than it may."""


class ServedCollection:
    """What the page asks a server for. Not for several threads at once: the app asks one question at a time."""

    def __init__(
        self,
        collection: Collection,
        *,
        title: str | None = None,
        roles: Mapping[str, str | None] | None = None,
        points: int = MOST_POINTS,
        embed: Embed | None = None,
        model_dim: int | None = None,
    ) -> None:
        column = collection.vectors
        if len(column.shape) != 2 or column.dtype.kind not in "fiuV" or not column.rows:
            raise InputError(
                f"a page needs rows of numbers, and {collection.main!r} is {column.shape} of {column.dtype}"
            )
        if model_dim is not None and model_dim != collection.dim:
            raise InputError(
                f"the model gives {model_dim} dimensions and the collection has {collection.dim}; use its own model"
            )
        self.collection = collection
        self.column = column
        self.embed = embed
        self.title = title or (collection.place.name if collection.place else collection.path or "Collection")
        label = collection.place.real() if collection.place else self.title
        self.id = hashlib.blake2b(label.encode(), digest_size=9).hexdigest()
        self.entries = Entries(collection, Roles(collection, roles))
        self.sample = _spread(collection.rows, min(points, MOST_POINTS))
        self.listed = None if collection.rows <= MOST_LISTED else self.sample
        self.plane: Plane = project(column, self.sample)
        self.fields: list[Field] = survey(self.entries, self.listed)
        self.names, self.ids = self._read_names()
        self.folded = [fold(name) for name in self.names]

    def _read_names(self) -> tuple[list[str], list[Any] | None]:
        """Names, and ids where the collection has some, of the rows that are listed."""
        rows = self.collection.rows
        some: Iterator[Entry]
        some = self.entries.read(0, rows) if self.listed is None else (self.entries.one(int(r)) for r in self.listed)
        read = [(entry.name, entry.id) for entry in some]
        return [name for name, _ in read], [given for _, given in read] if self.collection.ids is not None else None

    # -- the files of data/

    def file(self, name: str) -> bytes | None:
        """A data file of the page; None for a name that is none."""
        if name == "site.json":
            return json.dumps(self.site(), ensure_ascii=False).encode()
        if name == "map.bin":
            return self.plane.points.astype("<u2").tobytes()
        if name == "points.bin" and self.sample is not None:
            return self.sample.astype("<u4").tobytes()
        for number, field in enumerate(self.fields):
            if name == f"field-{number}.bin":
                return field.packed(None if self.listed is not None else self.sample)
        return None

    def site(self) -> dict[str, Any]:
        """What site.json says."""
        points = len(self.plane.points)
        note = self.plane.note
        if self.sample is not None:
            note += f"; {points:,} of {self.collection.rows:,} rows shown"
        about: dict[str, Any] = {"file": "map.bin", "points": points, "note": note}
        if self.sample is not None:
            about["rows_file"] = "points.bin"
        return {
            "version": 1,
            "title": self.title,
            "source": "server",
            "rows": self.collection.rows,
            "dim": self.collection.dim,
            "roles": self.entries.roles,
            "format": self.collection.format,
            "ids": None if self.ids is None else "names",
            "fields": [f.about(f"field-{i}.bin") for i, f in enumerate(self.fields)],
            "map": about,
            "records": {"per": 1, "folder": ""},
            "text_query": self.embed is not None,
        }

    # -- questions

    def suggest(self, text: str, limit: int) -> list[dict[str, Any]]:
        """Rows whose id is the text, or whose names begin with it, hold a word that does, hold it, or its words in any
        order; then those whose ids begin with it."""
        exact, wanted = text.strip(), fold(text.strip())
        words = wanted.split()
        ranks: tuple[list[int], ...] = ([], [], [], [], [], [])
        for at, name in enumerate(self.folded if wanted else []):
            held = "" if self.ids is None else as_text(self.ids[at])
            place = name.find(wanted)
            if held == exact:
                rank = 0
            elif place >= 0:
                rank = 1 if place == 0 else 3 if name[place - 1].isalnum() else 2
            elif len(words) > 1 and all(word in name for word in words):
                rank = 4
            elif held.startswith(exact):
                rank = 5
            else:
                continue
            if len(ranks[rank]) < limit:
                ranks[rank].append(at)
            if self.ids is None and len(ranks[1]) >= limit:
                break
        found = [at for rank in ranks for at in rank][:limit]
        return [self._told(at if self.listed is None else int(self.listed[at]), at) for at in found]

    def named(self, rows: list[int]) -> list[dict[str, Any]]:
        """Names of some rows, and ids where there are some."""
        self._refuse(rows)
        return [self._told(row, row if self.listed is None else None) for row in rows]

    def identified(self, given: str) -> list[dict[str, Any]]:
        """The first row with this id; none where there is none."""
        step = 65536
        for start in range(0, self.collection.rows if self.ids is not None else 0, step):
            ids = self.entries.ids(start, min(start + step, self.collection.rows))
            row = next((start + i for i, held in enumerate(ids) if as_text(held) == given), None)
            if row is not None:
                return self.named([row])
        return []

    def _told(self, row: int, at: int | None) -> dict[str, Any]:
        """A row, its name and its id; ``at`` is its place in the lists, None where it is not in them."""
        entry = self.entries.one(row) if at is None else None
        name = entry.name if entry is not None else self.names[at or 0]
        if self.ids is None:
            return {"row": row, "name": name}
        return {"row": row, "id": entry.id if entry is not None else self.ids[at or 0], "name": name}

    def records(self, rows: list[int]) -> list[Any]:
        """Records of some rows; the id is among their fields where there are ids."""
        self._refuse(rows)
        return [self.entries.one(row).record for row in rows]

    def _refuse(self, rows: list[int]) -> None:
        if len(rows) > MOST_ROWS or any(not 0 <= row < self.collection.rows for row in rows):
            raise InputError(f"rows must be from 0 to {self.collection.rows - 1}, at most {MOST_ROWS} at a time")

    def search(
        self,
        *,
        row: int | None = None,
        text: str | None = None,
        k: int = 20,
        filters: Mapping[str, list[str]] | None = None,
        seconds: float = 30.0,
    ) -> list[dict[str, Any]]:
        """The k rows with the largest cosine, exactly, by a scan of the file; `TooSlow` after ``seconds``."""
        if row is not None:
            self._refuse([row])
            query = np.asarray(self.column.take(np.array([row])), np.float64)[0]
        elif text is not None and self.embed is not None:
            query = np.asarray(self.embed(text), np.float64).reshape(-1)
        else:
            raise InputError("this server has no model to search by meaning; start it with --model")
        if query.shape != (self.collection.dim,):
            raise InputError(f"the query has {len(query)} dimensions and the collection {self.collection.dim}")
        query = np.where(np.isfinite(query), query, 0.0)  # what a row has of a direction
        if not query.any():
            raise InputError(
                "this row has no direction, so nothing is near it" if text is None else "the text is empty"
            )
        deadline = time.monotonic() + seconds

        def watch(done: int, total: int) -> None:
            if time.monotonic() > deadline:
                raise TooSlow("the search took too long; serve a smaller file, or publish a sample of it")

        k = min(max(1, k), MOST_K, self.collection.rows)
        mask = self._mask(filters or {})
        hits = search(self.collection, query[None], k, METRIC, where=mask, column=self.collection.main, progress=watch)
        found = zip(hits.rows[0].tolist(), hits.scores[0].tolist())
        return [self._hit(row, score) for row, score in found if row >= 0 and score == score]

    def _hit(self, row: int, score: float) -> dict[str, Any]:
        if self.ids is None:
            return {"row": row, "score": score}
        held = self.ids[row] if self.listed is None else self.entries.ids(row, row + 1)[0]
        return {"row": row, "id": held, "score": score}

    def _mask(self, filters: Mapping[str, list[str]]) -> NDArray[np.bool_] | None:
        by_name = {field.name: field for field in self.fields}
        used = [(by_name[name], values) for name, values in filters.items() if name in by_name and values]
        if not used:
            return None
        chosen = np.logical_and.reduce([field.chosen(map(as_text, values)) for field, values in used])
        if self.listed is None:
            return np.asarray(chosen, bool)
        mask = np.zeros(self.collection.rows, bool)
        mask[self.listed[chosen]] = True
        return mask


def _spread(rows: int, most: int) -> NDArray[np.int64] | None:
    """Row numbers spread evenly where there are too many to show; None where all are shown."""
    return None if rows <= most else np.unique(np.linspace(0, rows - 1, most).astype(np.int64))


def fold(text: str) -> str:
    """Lower case without accents, as the page folds names."""
    import unicodedata

    return "".join(c for c in unicodedata.normalize("NFD", text) if not "\u0300" <= c <= "\u036f").lower()
