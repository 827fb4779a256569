"""Exports read back, and searched as the browser does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.browser.values import dequantize
from polyvec.codecs.levels import Codes, bad_rows
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.folders import recover
from polyvec.core.places import Place
from polyvec.core.records import Record
from polyvec.core.sources import open_source
from polyvec.core.strict_json import parse_json
from polyvec.formats.i8bin import MAIN, MANIFEST, META, read_meta, read_shape


@dataclass(frozen=True, slots=True)
class Neighbor:
    """One answer of a search: a row, its dot product with the query, and its record."""

    row: int
    score: float
    record: Record


class BrowserIndex:
    """An export in memory, every row checked: ``codes`` (n, dim) int8, ``meta``, ``manifest``, ``records``."""

    def __init__(self, codes: Codes, meta: Mapping[str, Any], manifest: Mapping[str, Any] | None) -> None:
        self.codes = codes
        self.meta = meta
        self.manifest = manifest

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def records(self) -> Sequence[Record]:
        """One mapping a row."""
        found: list[Record] = self.meta["records"]
        return found

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """All rows as float32, computed once."""
        return dequantize(self.codes)

    def search(self, query: int | NDArray[Any], k: int = 10) -> list[Neighbor]:
        """The k rows with the largest dot product, best first, ties to the lower row. Nothing is re-normalized."""
        vector = self.vectors[query] if isinstance(query, (int, np.integer)) else np.asarray(query, np.float32)
        if vector.shape != (self.codes.shape[1],):
            raise InputError(f"expected a query of {self.codes.shape[1]} values, found shape {vector.shape}")
        scores = self.vectors @ vector
        best = np.lexsort((np.arange(len(scores)), -scores))[: max(0, k)]
        return [Neighbor(int(row), float(scores[row]), self.records[row]) for row in best]


def load_browser_index(directory: str | os.PathLike[str]) -> BrowserIndex:
    """Read an export back. Size, range, every norm, metadata and the manifest's hash are checked, as in the browser."""
    folder = Path(directory)
    recover(folder)
    with open_source(folder / META) as source:
        meta = read_meta(source)
    manifest = None
    if Place.of(folder / MANIFEST).is_file():
        with open_source(folder / MANIFEST) as source:
            manifest = parse_json(source.read_at(0, source.size), path=source.label, field=MANIFEST)
    try:
        source = open_source(folder / MAIN)
    except FileNotFoundError:
        raise Corrupt("Failed to load embeddings: 404 Not Found", path=str(folder / MAIN)) from None
    with source:
        try:
            rows, dim = read_shape(source, None)
            codes = np.empty((rows, dim), np.int8)
            source.read_into(0, codes)
            _check_hash(codes, manifest)
            for start in range(0, rows, 8192):
                for error in bad_rows(codes[start : start + 8192], start=start):
                    raise error
        except FormatError as error:
            raise error.located(source.label) from None
    return BrowserIndex(codes, meta, manifest if isinstance(manifest, dict) else None)


def _check_hash(codes: Codes, manifest: Any) -> None:
    said = manifest.get("file_hash") if isinstance(manifest, dict) else None
    if isinstance(said, str):
        found = hashlib.sha256(codes.tobytes()).hexdigest()
        if said.removeprefix("sha256:").lower() != found:
            raise Corrupt(f"Embedding file hash mismatch: the manifest says {said}, the file has {found}.")
