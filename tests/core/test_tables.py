"""Values of text tables: numbers, truths or text, by whole columns."""

from __future__ import annotations

import json

import pytest

from polyvec.core.tables import read_column


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["1", "2.5", ""], [1.0, 2.5, None]),
        (["1e3", "-0.25"], [1000.0, -0.25]),
        (["true", "FALSE", "", "True"], [True, False, None, True]),
        (["9007199254740992"], [2**53]),
        (["", ""], ["", ""]),
    ],
)
def test_a_column_is_what_all_its_values_are(values, expected):
    found = read_column(values)
    assert found == expected and [type(v) for v in found] == [type(v) for v in expected]


@pytest.mark.parametrize(
    "odd",
    [
        "007",
        "-01",
        "00.5",
        "+49",
        "1_000",
        " 1",
        "1 ",
        "1,5",
        "nan",
        "inf",
        "-Infinity",
        "0x10",
        "1e999",
        "12345678901234567890",
        "3.14159265358979323846",
        "٣",
        "1.",
        ".5",
        "yes",
        "1-2",
        "--1",
        "1e",
        "\u00b2",
    ],
)
def test_one_value_that_is_no_plain_number_keeps_the_column_as_text(odd):
    assert read_column(["1", odd, "", "2"]) == ["1", odd, "", "2"]


def test_ids_and_codes_lose_no_digit():
    ids = ["9007199254740993", "1"]
    assert read_column(ids) == ids
    numbers = read_column(["0.1", "123456789.12345678", "1e-300"])
    assert json.loads(json.dumps(numbers)) == numbers == [0.1, 123456789.12345678, 1e-300]


def test_truths_and_numbers_do_not_mix():
    assert read_column(["true", "1"]) == ["true", "1"]
