"""Paddings: never none in the reference, none where it is aligned in the document."""

from __future__ import annotations

from polyvec.formats.finalfusion.structure import CODES, TYPES, paddings


def test_padding_reaches_the_next_multiple() -> None:
    for offset in range(20):
        for width in (1, 2, 4, 8):
            reference, document = paddings(offset, width)
            assert 1 <= reference <= 4 and (offset + reference) % 4 == 0
            assert 0 <= document < width and (offset + document) % width == 0


def test_element_types_have_one_number_each() -> None:
    assert {CODES[kind] for kind in CODES} == set(TYPES)
