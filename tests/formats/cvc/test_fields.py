"""Fields of a CVC header: of their kind, or an error with their path and place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyvec.core.errors import Corrupt, Unsupported
from polyvec.formats.cvc.fields import Fields

FIELDS = Fields(12)


def test_a_count_is_a_whole_number_from_zero_on() -> None:
    assert FIELDS.count({"n": 0}, "n") == 0 and FIELDS.count({"n": 7}, "n", most=7) == 7
    for value in (-1, True, 1.0, "3", None):
        with pytest.raises(Corrupt, match="is not a count") as caught:
            FIELDS.count({"n": value}, "n", "chunks[3].")
        assert (caught.value.field, caught.value.offset) == ("chunks[3].n", 12)
    with pytest.raises(Corrupt, match="found nothing"):
        FIELDS.count({}, "n")
    with pytest.raises(Corrupt, match="at most 6, found 7"):
        FIELDS.count({"n": 7}, "n", most=6)


@pytest.mark.parametrize("value", [1e39, 10**400, "1", True, None])
def test_a_number_is_one_that_float32_holds(value: Any) -> None:
    with pytest.raises(Corrupt) as caught:
        FIELDS.number({"min": value}, "min", "c.")
    assert caught.value.field == "c.min"


def test_a_number_is_rounded_to_float32() -> None:
    assert (
        FIELDS.number({"min": 0.1}, "min", "") == float(np.float32(0.1)) and FIELDS.number({"min": 3}, "min", "") == 3
    )


def test_names_are_those_there_are() -> None:
    assert FIELDS.compression("fp16", "x") == "fp16" and FIELDS.dtype("int32", "x") == np.dtype("<i4")
    for read in (FIELDS.compression, FIELDS.dtype):
        for value in ("zip", None, ["fp16"], 16):
            with pytest.raises((Unsupported, TypeError)) as caught:
                read(value, "columns[0].x")
            assert isinstance(caught.value, Unsupported) and caught.value.field == "columns[0].x"


def test_a_checksum_is_32_bits_or_not_there() -> None:
    assert FIELDS.checksum({}, "") is None and FIELDS.checksum({"crc32": 2**32 - 1}, "") == 2**32 - 1
    with pytest.raises(Corrupt):
        FIELDS.checksum({"crc32": 2**32}, "")
