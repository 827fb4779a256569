"""Strict JSON: the fast way gives what the strict way gives, and refuses what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polyvec.core.errors import Corrupt
from polyvec.core.strict_json import _parse_strictly, parse_json, parse_lines, parse_plain

LINES = [
    b'{"a": 1, "b": "x", "c": null, "d": true, "e": 1.5e3, "f": [1, [2, "}"]]}',
    b'{"a":-0,"b":-0.0,"c":18446744073709551616,"d":"\\u00fc \\ud83d\\ude00"}',
    b'{"text": "a \\": \\" b", "other": "say \\":\\""}',
    b'{"text": "ratio 3 : 4", "k" : 1}',
    b'{"nested": {"a": 1}, "b": []}',
    b"{}",
    b' {"a":1}\r',
    b'{"a":"\\ud800"}',
    b'{"a":1e999}',
]
BAD = [
    b'{"a":1,"a":2}',
    b'{"a":1,"a" :2}',
    b'{"a":1,"\\u0061":2}',
    b'{"a":1,"b":{"c":1,"c":2}}',
    b'{"a":1,"a"\t:2}',
    b'{"a":"\\":","a":1}',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":"\x01"}',
    b'{"a":"\xff"}',
    b'{"a":1',
    b'{"a":1}x',
    b'{"a":%s}' % (b"7" * 101),
    b'{"a":' + b"[" * 65 + b"]" * 65 + b"}",
    b"",
]


@pytest.mark.parametrize("line", LINES)
def test_the_fast_way_gives_what_the_strict_way_gives(line: bytes) -> None:
    strict = _parse_strictly(line, None, 0, "JSON")
    fast = parse_plain(line, 1)
    assert fast is None or (fast == [strict] and repr(fast) == repr([strict]))
    assert parse_json(line) == strict and parse_lines(line + b"\n") == [strict]


@pytest.mark.parametrize("line", BAD)
def test_neither_way_takes_what_is_no_strict_json(line: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_json(line)
    with pytest.raises(Corrupt) as caught:
        parse_lines(b'{"a":1}\n' + line + b"\n", offset=100)
    assert caught.value.offset is not None and caught.value.offset >= 108


def test_lines_of_all_kinds_together_are_what_they_are_alone() -> None:
    data = b"\n".join(LINES)
    assert parse_lines(data) == [parse_json(line) for line in LINES] == parse_lines(data + b"\n")
    assert parse_lines(b"") == []


def test_random_objects_are_read_as_the_standard_library_reads_them() -> None:
    generator = np.random.default_rng(3)
    pieces = ['"', "\\", ":", " ", "{", "}", "[", ",", "a", "ü", "\n", "1", '":', " :"]
    for _ in range(300):
        texts = ["".join(generator.choice(pieces, generator.integers(0, 6))) for _ in range(4)]
        record = {texts[0]: texts[1], texts[2]: [texts[3], int(generator.integers(-9, 9))]}
        line = json.dumps(record, ensure_ascii=bool(generator.integers(2))).encode()
        assert parse_json(line) == record and parse_lines(line + b"\n" + line) == [record, record]
        twice = json.dumps({"k": texts[1]}).encode()[:-1] + b', "k": 1}'
        with pytest.raises(Corrupt, match="twice"):
            parse_json(twice)


def test_errors_say_what_to_do():
    for data in (b'{"a": "\xff"}', b"{", b'{"a": 1, "a": 2}'):
        with pytest.raises(Corrupt, match="mend it, or fetch or write the file again"):
            parse_json(data, path="x.cvc")
