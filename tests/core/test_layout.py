"""Records of fixed layout, the cursor, strict JSON and the text of errors."""

from __future__ import annotations

import pickle
import struct

import pytest

from polyvec.core.errors import Corrupt, FormatError, MissingExtra, Truncated
from polyvec.core.layout import Cursor, Record, take
from polyvec.core.sources import open_source
from polyvec.core.strict_json import parse_json

HEADER = Record("header", magic=4, kind="u1", n="u4", big="i8", scale="f4")


def test_a_record_reads_what_struct_packs() -> None:
    values = {"magic": b"BOX1", "kind": 7, "n": 2**32 - 1, "big": -(2**63), "scale": 0.5}
    data = struct.pack("<4sBIqf", *values.values())
    assert HEADER.pack(values) == data and HEADER.size == len(data) == 21
    assert HEADER.read(open_source(b"xx" + data), 2) == values
    assert [HEADER.offset(name) for name in values] == [0, 4, 5, 9, 17]
    spans = HEADER.spans(100, values)
    assert [(s.offset, s.size) for s in spans] == [(100, 4), (104, 1), (105, 4), (109, 8), (117, 4)]
    assert spans[2].name == "header.n" and spans[2].note == "4294967295"


@pytest.mark.parametrize("cut", range(21))
def test_a_record_cut_anywhere_is_truncated(cut: int) -> None:
    with pytest.raises(Truncated, match=f"expected 21 bytes, found {cut} bytes"):
        HEADER.read(open_source(bytes(cut)))


def test_a_cursor_never_leaves_its_bounds() -> None:
    cursor = Cursor(open_source(struct.pack("<I", 5) + "naïve".encode() + b"\xff" * 9), 0, stop=12)
    assert cursor.number("u4", "length") == 5 and cursor.left == 8
    assert cursor.text(6, "word") == "naïve" and cursor.offset == 10
    for size in (3, -1, 2**64):
        for read in (cursor.take, cursor.skip, cursor.require):
            with pytest.raises(Truncated, match="field word at byte 10"):
                read(size, "word")
    with pytest.raises(Corrupt, match=r"UTF-8.*field word at byte 10.*0xff"):
        cursor.text(2, "word")
    with pytest.raises(Truncated):
        cursor.read(HEADER)
    with pytest.raises(Truncated):
        take(open_source(bytes(9)), -1, 2, "x")


@pytest.mark.parametrize(
    ("text", "words", "offset"),
    [
        (b'{"a": 1, "a": 2}', "twice", None),
        (b"[NaN]", "NaN", None),
        (b"[-Infinity]", "Infinity", None),
        (b"[" * 65 + b"]" * 65, "deeper than 64", 64),
        (b"[" * 100_000, "deeper than 64", 64),
        (b'{"a": }', "invalid JSON", 6),
        (b'["\xc3\xa4", x]', "invalid JSON", 7),
        (b'"\xff"', "UTF-8", 1),
        (b"9" * 5000, "100 digits", None),
        (b"", "invalid JSON", 0),
        (b'"abc', "invalid JSON", None),
    ],
)
def test_json_that_is_not_plain_is_corrupt_with_its_offset(text: bytes, words: str, offset: int | None) -> None:
    with pytest.raises(Corrupt, match=words) as caught:
        parse_json(text, path="x", offset=1000)
    if offset is not None:
        assert caught.value.offset == 1000 + offset


def test_plain_json_is_what_json_says() -> None:
    assert parse_json(b'{"a": [1, -2.5e3, null, true, "\\u00fc]["]}') == {"a": [1, -2500.0, None, True, "ü]["]}
    assert parse_json(b"[" * 64 + b"]" * 64) is not None


def test_an_error_is_one_line_with_all_it_knows_and_survives_a_pickle() -> None:
    error = Truncated("the file\nends", offset=8, field="n", expected="5 bytes", found=3, remedy="fetch it again")
    expected = "a.fbin: the file ends (field n at byte 8; expected 5 bytes, found 3); fetch it again"
    assert str(error.located("a.fbin")) == expected
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is Truncated and str(again) == expected and again.offset == 8
    assert str(error.located("other")) == expected
    assert isinstance(error, FormatError) and isinstance(error, ValueError)
    assert "pip install 'polyvec[hdf5]'" in str(MissingExtra("h5py", extra="hdf5", purpose="HDF5 files"))
