"""JSON from files that nobody vouches for: no duplicate keys, no NaN, no depth bombs, offsets in errors.

msgspec parses fast but takes duplicate keys and recurses without a limit of ours. So it is given only what cannot
have either: objects without objects in them, whose keys can be counted. The standard library parses the rest.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from polyvec.core.errors import Corrupt

MAX_DEPTH = 64  # real headers nest five deep
MAX_DIGITS = 100
REMEDY = "mend it, or fetch or write the file again"
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * (MAX_DIGITS + 1)


class _Refused(ValueError):
    """What the decoder's hooks refuse; the caller knows the file."""


def parse_json(data: bytes, *, path: str | None = None, offset: int = 0, field: str = "JSON") -> Any:
    """The value in ``data``; `Corrupt` with the file's offset otherwise."""
    found = parse_plain(data, 1)
    return found[0] if found is not None else _parse_strictly(data, path, offset, field)


def parse_lines(data: bytes, *, path: str | None = None, offset: int = 0, field: str = "JSON") -> list[Any]:
    """The values of lines, of which the last may lack its line break; `Corrupt` with the file's offset otherwise."""
    count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    found = parse_plain(data, count)
    if found is not None:
        return found
    values = []
    for line in data.removesuffix(b"\n").split(b"\n") if count else ():
        values.append(parse_json(line, path=path, offset=offset, field=field))
        offset += len(line) + 1
    return values


def parse_plain(data: bytes, count: int) -> list[Any] | None:
    """The values of ``count`` lines where each is an object that holds no other and no key twice; else None.

    Each key is followed by a quote and a colon, so as many of those as there are different keys means that none is
    there twice. Those inside strings only make the count too high, and blanks before a colon are not looked into.
    """
    if data.count(b"{") != count or not count or b" :" in data or b"\t:" in data or b"\r:" in data or b"\n:" in data:
        return None
    if data.count(b"[") > MAX_DEPTH or _has_long(data):
        return None
    decoder, errors = _fast()
    try:
        values: list[Any] = decoder.decode_lines(data) if count > 1 else [decoder.decode(data)]
    except errors:
        return None
    whole = len(values) == count and set(map(type, values)) == {dict}
    return values if whole and sum(map(len, values)) == data.count(b'":') else None


def _has_long(data: bytes) -> bool:
    """Whether there may be a number of more digits than any real one has."""
    return len(data) > MAX_DIGITS and _LONG in data.translate(_ZEROS)


@cache
def _fast() -> tuple[Any, tuple[type[Exception], ...]]:
    import msgspec

    return msgspec.json.Decoder(), (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _parse_strictly(data: bytes, path: str | None, offset: int, field: str) -> Any:
    def fail(message: str, at: int = 0) -> Corrupt:
        return Corrupt(message, path=path, offset=offset + at, field=field, remedy=REMEDY)

    if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        depth = 0
        for match in _STRUCTURE.finditer(data):
            token = match[0]
            if token in b"[{":
                depth += 1
                if depth > MAX_DEPTH:
                    raise fail(f"JSON nests deeper than {MAX_DEPTH}", match.start())
            elif token in b"]}":
                depth -= 1
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fail("JSON is not valid UTF-8", error.start) from None
    decoder = _BOUNDED if _has_long(data) else _DECODER
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode("utf-8"))
        raise fail(f"invalid JSON: {error.msg[:1].lower()}{error.msg[1:]}", at) from None
    except _Refused as error:
        raise fail(str(error)) from None
    except RecursionError:
        raise fail("JSON nests too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Refused(f"JSON object has the key {twice!r} twice")
    return found


def _refuse(name: str) -> Any:
    raise _Refused(f"JSON holds {name}, which is not a JSON number")


def _bounded_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _Refused(f"JSON integer of more than {MAX_DIGITS} digits")
    return int(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_BOUNDED = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_bounded_int)
