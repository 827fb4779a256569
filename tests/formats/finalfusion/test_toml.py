"""Plain values as TOML: read back by the standard library as they were, or refused by name."""

from __future__ import annotations

import datetime
import math
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.core.errors import InputError
from polyvec.formats.finalfusion.toml import dump_toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_everything_reads_back_as_it_was(values: dict) -> None:
    assert tomllib.loads(dump_toml(values)) == values


def test_dates_numpy_and_numbers_that_are_none_have_a_spelling() -> None:
    values = {"d": datetime.date(2024, 1, 2), "n": np.float32(0.5), "i": np.int64(3), "big": 1e22, "inf": -math.inf}
    back = tomllib.loads(dump_toml({**values, "nan": math.nan}))
    assert math.isnan(back.pop("nan")) and back == {**values, "n": 0.5, "i": 3}


def test_tables_come_after_the_values_of_the_table_they_stand_in() -> None:
    text = dump_toml({"a": {"b": {"c": 1}, "d": 2}, "e": 3})
    assert tomllib.loads(text) == {"a": {"b": {"c": 1}, "d": 2}, "e": 3}
    assert text.index("e = 3") < text.index("[a]") < text.index("[a.b]")
    assert tomllib.loads(dump_toml({"empty": {}})) == {"empty": {}}


@pytest.mark.parametrize("value", [None, object(), 1j])
def test_what_toml_has_not_is_refused_with_its_key(value: object) -> None:
    with pytest.raises(InputError, match="metadata 'k': TOML has no"):
        dump_toml({"k": value})
