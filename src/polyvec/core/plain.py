"""Plain values: what records and ids hold, as JSON, JavaScript and people read them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

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


def plain(value: Any) -> Any:
    """A value JSON and JavaScript can hold: NumPy scalars as Python's, NaN as null, large integers and the rest as text."""
    if isinstance(value, np.generic):
        value = value.item()
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
