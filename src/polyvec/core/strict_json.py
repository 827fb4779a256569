"""JSON from files that nobody vouches for: no duplicate keys, no NaN, no depth bombs, offsets in errors.

msgspec parses fast but takes duplicate keys and recurses without a limit of ours, so a scan runs first.
"""

from __future__ import annotations

import json
import re
from typing import Any

from polyvec.core.errors import Corrupt

MAX_DEPTH = 64  # real headers nest five deep
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)


def parse_json(data: bytes, *, path: str | None = None, offset: int = 0, field: str = "JSON") -> Any:
    """The value in ``data``; `Corrupt` with the file's offset otherwise."""

    def fail(message: str, at: int = 0) -> Corrupt:
        return Corrupt(message, path=path, offset=offset + at, field=field)

    depth = 0
    for match in _STRUCTURE.finditer(data):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise fail(f"JSON nests deeper than {MAX_DEPTH}", match.start())
        elif token in b"]}":
            depth -= 1

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise fail(f"JSON object has the key {twice!r} twice")
        return found

    def refuse(name: str) -> Any:
        raise fail(f"JSON holds {name}, which is not a JSON number")

    def bounded_int(text: str) -> int:
        if len(text) > 100:
            raise fail("JSON integer of more than 100 digits")
        return int(text)

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fail("JSON is not valid UTF-8", error.start) from None
    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse, parse_int=bounded_int)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8"))
        raise fail(f"invalid JSON: {error.msg[:1].lower()}{error.msg[1:]}", at) from None
    except RecursionError:
        raise fail("JSON nests too deeply") from None
