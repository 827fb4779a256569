"""Plain values as TOML text. The standard library only reads it."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from polyvec.core.errors import InputError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def dump_toml(values: Mapping[str, Any]) -> str:
    """TOML of nested mappings, lists, strings, numbers, flags and dates.

    >>> print(dump_toml({"lr": 0.025, "name": "golden", "args": {"ns": 5}}), end="")
    lr = 0.025
    name = "golden"
    <BLANKLINE>
    [args]
    ns = 5
    """
    lines: list[str] = []
    _table(values, (), lines)
    return "".join(f"{line}\n" for line in lines)


def _table(values: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    plain = {k: v for k, v in values.items() if not isinstance(v, Mapping)}
    if path and (plain or not values):
        if lines:
            lines.append("")
        lines.append(f"[{'.'.join(_key(part) for part in path)}]")
    lines += [f"{_key(k)} = {_value(v, k)}" for k, v in plain.items()]
    for key, inner in values.items():
        if isinstance(inner, Mapping):
            _table(inner, (*path, str(key)), lines)


def _key(key: Any) -> str:
    text = str(key)
    return text if _BARE.fullmatch(text) else _string(text)


def _string(text: str) -> str:
    def escape(c: str) -> str:
        return _ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c)

    return '"' + "".join(map(escape, text)) + '"'


def _value(value: Any, key: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v, k)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item, key) for item in value) + "]"
    if hasattr(value, "item"):
        return _value(value.item(), key)
    raise InputError(f"metadata {key!r}: TOML has no {type(value).__name__}; leave it out or make it a string")
