"""Plain values: what records, ids and metadata hold, as files, JavaScript and people read them."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from polyvec.core.records import Record

MOST_EXACT = 2**53 - 1  # whole numbers beyond this are rounded by JavaScript


def as_text(value: Any) -> str:
    """A value of a record as the page shows it."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(as_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT:
        return str(int(value))  # 3.0 is 3 in JavaScript
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def stored(value: Any) -> Any:
    """A value as files hold it: JSON's kinds, times and decimals as text, bytes as hex."""
    if isinstance(value, Mapping):
        return {str(key): stored(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [stored(inner) for inner in value]
    if isinstance(value, np.ndarray):
        return stored(value.tolist())
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)  # whose item is a bare count of nanoseconds
    if isinstance(value, np.generic):
        return item if isinstance(item := value.item(), np.generic) else stored(item)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return value


def json_default(value: Any) -> Any:
    """What an encoder of JSON writes for a kind it does not know: the value as files hold it, or `TypeError`."""
    found = stored(value)
    if found is value or isinstance(found, np.generic):  # also what Python has no number for
        raise TypeError(f"{type(value).__name__} {str(value)[:40]!r}")
    return found


def plain(value: Any) -> Any:
    """A value JSON and JavaScript can hold: as `stored`, NaN as null, large integers and the rest as text."""
    value = value if isinstance(value, (Mapping, list, tuple, np.ndarray)) else stored(value)
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MOST_EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else ("-∞" if value < 0 else "∞")
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    return str(value)


def with_id(record: Record, given: Any) -> Record:
    """The record with its row's id (None: there is none); where its field ``id`` holds something else, as ``row id``."""
    if given is None or as_text(record.get("id")) == as_text(given):
        return record
    return {**record, "row id" if "id" in record else "id": given}
