"""Fixed records of `.weights`: sizes of the document, a hash of 32 bits, and pieces that may not overlap."""

from __future__ import annotations

import pytest

from polyvec.core.errors import Corrupt
from polyvec.formats.weights.records import (
    DESCRIPTOR,
    DTYPES,
    FOOTER,
    HEADER,
    SPECIALS,
    TENSORS_ALIGNED,
    Contents,
    Window,
    hash_name,
    refuse_overlaps,
    sections,
)
from polyvec.testing import MemorySource


def test_records_have_the_sizes_of_the_document() -> None:
    assert (HEADER.size, DESCRIPTOR.size, FOOTER.size, SPECIALS.size) == (64, 32, 16, 20)
    assert [dtype.itemsize for _, dtype in DTYPES] == [4, 2, 2, 4, 2, 1, 4, 2, 1]


def test_names_are_hashed_by_32_bit_fnv_1a() -> None:
    assert (hash_name(b""), hash_name(b"a"), hash_name(b"foobar")) == (0x811C9DC5, 0xE40C292C, 0xBF9CF968)


def test_pieces_may_touch_and_not_overlap() -> None:
    refuse_overlaps([("b", 10, 5), ("a", 0, 10), ("c", 15, 0)], "tensor")
    with pytest.raises(Corrupt, match="tensor 'b' overlaps 'a'") as caught:
        refuse_overlaps([("b", 9, 5), ("a", 0, 10)], "tensor")
    assert (caught.value.offset, caught.value.expected) == (9, "a start at or after 10")


def test_sections_are_where_the_header_says() -> None:
    header = dict.fromkeys(HEADER.fields, 0) | {
        "tensor_index_offset": 100,
        "tensor_index_count": 3,
        "flags": TENSORS_ALIGNED,
    }
    assert ("tensor index", 100, 96) in sections(header) and sections(header)[0] == ("header", 0, 64)
    assert Contents(header).aligned and not Contents({**header, "flags": 0}).aligned


def test_a_window_keeps_the_offsets_of_the_file() -> None:
    window = Window(MemorySource(b"0123456789", "a"), 4, 3, "names")
    assert window.read_at(5, 2) == b"56" and window.size == 7
