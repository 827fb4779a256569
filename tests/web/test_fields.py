"""Record fields as columns: categories or numbers, and which rows a filter leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.errors import InputError
from polyvec.web.fields import MISSING, Field, survey
from polyvec.web.site import Entries, Roles


def fields(values: list[Any], key: str = "f") -> list[Field]:
    records = [{key: value} for value in values]
    collection = Collection.from_arrays(np.zeros((len(values), 2), np.float32), records=records)
    return survey(Entries(collection, Roles(collection)))


def test_few_values_are_categories_the_most_frequent_first() -> None:
    [field] = fields(["b", "a", "b", None, "", "b", "a", "c"] * 2)
    assert (field.kind, field.values, field.counts) == ("category", ("b", "a", "c"), (6, 4, 2))
    assert field.column[:5].tolist() == [0, 1, 0, MISSING, MISSING]
    assert field.packed(np.array([1, 3])) == np.array([1, MISSING], "<u2").tobytes()


def test_many_numbers_are_numbers_as_narrow_as_they_are_exact() -> None:
    [whole] = fields(list(range(40)))
    assert whole.kind == "number" and whole.column.dtype == np.float32
    [fine] = fields([n / 10 for n in range(40)])
    assert fine.column.dtype == np.float64 and fine.about("f.bin")["wide"]
    about = whole.about("f.bin")
    assert (about["low"], about["high"], about["plain"]) == (0, 39, True)


def test_ids_texts_and_single_values_are_no_fields() -> None:
    assert fields([str(n) for n in range(40)]) == [] and fields(["same"] * 40) == []
    assert fields(["x" * 81, "y"] * 20) == [] and fields([2**60 + n for n in range(40)]) == []


def test_a_filter_leaves_the_rows_that_are_meant() -> None:
    [kinds] = fields(["a", "b", None, "a", "b", "b"] * 2)
    assert np.flatnonzero(kinds.chosen(["a", "nothing"])).tolist() == [0, 3, 6, 9]
    assert np.flatnonzero(kinds.chosen(["null"])).tolist() == np.flatnonzero(kinds.chosen([""])).tolist() == [2, 8]
    [numbers] = fields([None, *range(1, 40)])
    assert np.flatnonzero(numbers.chosen(["5..7", "39"])).tolist() == [5, 6, 7, 39]
    assert np.flatnonzero(numbers.chosen(["38.."])).tolist() == [38, 39]
    assert np.flatnonzero(numbers.chosen(["null"])).tolist() == [0] and numbers.chosen([]).sum() == 39
    with pytest.raises(InputError, match=r"takes a number or low\.\.high, not 'x'"):
        numbers.chosen(["x"])
