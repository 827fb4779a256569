"""Plain values: what records and metadata become in files, in JSON and for people."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import numpy as np
import pytest

from polyvec.core.plain import MOST_EXACT, as_text, json_default, plain, stored, with_id


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (3.0, "3"),
        (3.5, "3.5"),
        (float(2**60), str(float(2**60))),
        (["a", None, 2.0], "a, , 2"),
        ({"ä": 1}, '{"ä": 1}'),
        ("x", "x"),
    ],
)
def test_values_read_as_the_page_shows_them(value: Any, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.arange(2), [0, 1]),
        (np.datetime64("2024-01-02T03:04:05", "ns"), "2024-01-02T03:04:05.000000000"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        (decimal.Decimal("1.10"), "1.10"),
        (b"\x00\xff", "00ff"),
        ({1: (np.int8(1), b"a")}, {"1": [1, "61"]}),
        ("x", "x"),
        (None, None),
    ],
)
def test_values_are_stored_as_jsons_kinds(value: Any, wanted: Any) -> None:
    found = stored(value)
    assert found == wanted and type(found) is type(wanted)
    json.dumps(found)


def test_an_encoder_is_told_what_it_does_not_know_and_refuses_the_rest() -> None:
    assert json.dumps({"a": np.float64(1.5), "b": np.array([1])}, default=json_default) == '{"a": 1.5, "b": [1]}'
    for value in (object(), np.longdouble(1)):
        with pytest.raises(TypeError, match=type(value).__name__):
            json_default(value)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (float("nan"), None),
        (float("inf"), "∞"),
        (-float("inf"), "-∞"),
        (MOST_EXACT, MOST_EXACT),
        (MOST_EXACT + 1, str(MOST_EXACT + 1)),
        (-MOST_EXACT - 1, str(-MOST_EXACT - 1)),
        (np.uint64(2**64 - 1), str(2**64 - 1)),
        ({"a": [float("nan"), (1,)]}, {"a": [None, [1]]}),
        (np.array([1.0, np.nan]), [1.0, None]),
        (True, True),
        (1 + 2j, "(1+2j)"),
    ],
)
def test_plain_values_are_what_javascript_holds_exactly(value: Any, wanted: Any) -> None:
    assert plain(value) == wanted


def test_an_id_joins_a_record_without_covering_a_field() -> None:
    assert with_id({"a": 1}, None) == {"a": 1}
    assert with_id({"a": 1}, 7) == {"a": 1, "id": 7}
    assert with_id({"id": 7.0}, 7) == {"id": 7.0} and with_id({"id": "x"}, 7) == {"id": "x", "row id": 7}
