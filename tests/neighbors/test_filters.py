"""Filters compare values as JSON does, and say where they leave too little."""

from __future__ import annotations

import decimal

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.neighbors.filters import Spelled, same
from polyvec.neighbors.search import search

ROWS = np.eye(6, dtype=np.float32) + 0.1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("2", 2.0),
        ("2.0", 2),
        ("2e0", 2),
        ("+2", 2),
        ("-0.5", -0.5),
        ("0.1", 0.1),
        ("9007199254740993", 9007199254740993),
        ("null", None),
        ("", None),
        ("", float("nan")),
        ("NULL", None),
        ("", ""),
        ("null", "null"),
        ("2", "2"),
        ("en", "en"),
        ("2", np.int64(2)),
        ("true", np.bool_(True)),
        ("1.50", decimal.Decimal("1.5")),
        ('["a", 1]', ["a", 1]),
        ("2020-01-02", np.datetime64("2020-01-02")),
    ],
)
def test_text_matches_the_value_that_it_spells(text, value):
    assert same(value, Spelled(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("true", 1),
        ("true", "True"),
        ("2.0", "2"),
        ("9007199254740992", 9007199254740993),
        ("0", None),
        ("1_0", 10),
        ("", 0),
        ("", False),
        ("null", 0),
        ("null", "Null"),
        ("None", None),
        ("[", ["a"]),
        ("2", 3),
    ],
)
def test_text_matches_no_other_value(text, value):
    assert not same(value, Spelled(text))


@pytest.mark.parametrize(
    ("wanted", "value", "equal"),
    [
        (2, 2.0, True),
        (2.0, 2, True),
        (np.float32(2), 2, True),
        (True, True, True),
        (True, np.bool_(True), True),
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        (None, None, True),
        (None, float("nan"), True),
        (None, 0, False),
        ("2", 2, True),
        ("2", 2.0, False),
        ("2", "2", True),
        ("", None, False),
        ([1, None], None, True),
    ],
)
def test_values_given_in_python_match_by_value_and_text_stays_text(wanted, value, equal):
    assert same(value, wanted) is equal


def test_a_field_that_the_first_record_lacks_can_be_filtered_by():
    records = [{"n": 0}, {"n": 1, "price": 2.0}, {"n": 2, "price": None}, {"n": 3}, {"n": 4}, {"n": 5}]
    c = pv.Collection.from_arrays(ROWS, records=records)
    assert search(c, ROWS[:1], 1, where={"price": 2}).rows.tolist() == [[1]]
    assert sorted(search(c, ROWS[:1], 5, where={"price": None}).rows[0]) == [0, 2, 3, 4, 5]
    with pytest.raises(InputError, match="records have no field 'prize'"):
        search(c, ROWS[:1], 1, where={"prize": 2})


def test_a_filter_that_leaves_too_little_is_noted():
    c = pv.Collection.from_arrays(ROWS, records={"price": [1.0, 2.0, 2.0, 3.0, None, 5.0], "ok": [True, False] * 3})
    assert search(c, ROWS[:1], 2, where={"price": 2}).notes == ()
    assert search(c, ROWS[:1], 3, where={"price": 2}).notes == (
        "only 2 of the 3 rows asked for passed the filter price=2",
    )
    assert search(c, ROWS[:1], 1, where={"price": [7, None], "ok": False}).notes == (
        "no record has price=7 or null and ok=false",
    )
    assert search(c, ROWS[:1], 1, where=np.zeros(6, bool)).notes == ("no row passed the filter",)


def test_only_a_given_k_can_be_too_large():
    hits = search(ROWS, ROWS[:2])
    assert hits.rows.shape == (2, 6) and hits.notes == ("k is 6, as many as there are rows; it is 10 unless given",)
    assert pv.Index.build(ROWS).search(ROWS[:2]).rows.shape == (2, 6)
    with pytest.raises(InputError, match="k is 10 and the base has only 6 rows"):
        search(ROWS, ROWS[:2], 10)
