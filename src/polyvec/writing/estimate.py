"""How many bytes a write will take, as far as it can be told before: rather too few than too many."""

from __future__ import annotations

import math
import re

import numpy as np

from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.records import LineRecords
from polyvec.core.vocab import Strings

TEXT_BYTES = 4  # of a value as text, and its space: "0.12345678" has more, "0" and "1" have less
PACKED_SHARE = 0.5  # what compression may leave of values
_NAMED = (("bfloat16", 2.0), ("float16", 2.0), ("int8", 1.0), ("pq", 0.0), ("csr", 0.0), ("lossless", None))


def estimate_bytes(collection: Collection, target: str, beside: list[str]) -> int:
    """The bytes of a file whose main column becomes ``target`` (as `Format.target` says it), and of its sidecars."""
    total = 0.0
    for name, column in collection.columns.items():
        if not column.derived:
            total += _bytes(column, target if name == collection.main else None)
    return int(total) + _beside(collection, beside)


def _bytes(column: Column, target: str | None) -> float:
    values = math.prod(column.shape)
    plain = float(values * column.dtype.itemsize)
    if target is None:
        return plain if column.encoding == "raw" else min(plain, values)
    if target.endswith("as text"):
        return float(values * TEXT_BYTES)
    raw = re.match(r"raw (\w+)(,.*)?", target)
    if raw:
        width = _width(raw[1])
        size = plain if width is None else float(values * width)
        return size * PACKED_SHARE if raw[2] else size
    for name, each in _NAMED:
        if name in target:
            return plain * PACKED_SHARE if each is None else values * each
    return min(plain, values)


def _width(name: str) -> int | None:
    if name == "bfloat16":
        return 2
    try:
        return np.dtype(name).itemsize
    except TypeError:
        return None


def _beside(collection: Collection, what: list[str]) -> int:
    total = 0
    if "words" in what and collection.vocab is not None:
        total += _strings(collection.vocab.words)
    if "ids" in what and collection.ids is not None:
        total += _strings(collection.ids) if isinstance(collection.ids, Strings) else collection.rows * 8
    if "records" in what and isinstance(collection.records, LineRecords):
        total += collection.records.source.size
    return total


def _strings(strings: Strings) -> int:
    return int((strings.stops - strings.starts).sum()) + len(strings)
