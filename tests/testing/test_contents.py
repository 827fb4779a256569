"""Contents compared: a bit, a row, a word, an id or a key that differs is seen."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn
from polyvec.core.vocab import Vocab
from polyvec.testing import Sample, vectors
from polyvec.testing.contents import assert_same_column, assert_same_contents, consume, plain_ids

ROWS = vectors(4, 3)


def full(rows: np.ndarray = ROWS, **parts: object) -> Collection:
    given = {"vocab": list("abcd"), "records": [{"n": n} for n in range(4)], "ids": [1, 2, 3, 4], "metadata": {"k": 1}}
    return Collection.from_arrays(rows, **{**given, **parts})


def test_the_same_is_the_same_and_more_metadata_is_no_harm() -> None:
    assert_same_contents(full(metadata={"k": 1, "more": 2}), Sample("s", full()))


@pytest.mark.parametrize(
    "other",
    [
        full(-ROWS),
        full(ROWS.astype(np.float64)),
        full(vocab=list("abce")),
        full(vocab=None),
        full(records=[{"n": 0}] * 4),
        full(ids=[1, 2, 3, 5]),
        full(ids=None),
        full(metadata={"k": 2}),
    ],
)
def test_every_difference_is_seen(other: Collection) -> None:
    with pytest.raises(AssertionError):
        assert_same_contents(other, Sample("s", full()))


def test_bits_count_where_there_is_no_tolerance() -> None:
    zero, minus = ArrayColumn("v", np.float32([[0.0]])), ArrayColumn("v", np.float32([[-0.0]]))
    nan = ArrayColumn("v", np.float32([[np.nan]]))
    assert_same_column(nan, nan, 0)
    with pytest.raises(AssertionError):
        assert_same_column(zero, minus, 0)
    assert_same_column(ArrayColumn("v", np.float32([[0.01]])), zero, 0.02)


def test_words_of_another_number_than_the_rows_are_seen() -> None:
    with pytest.raises(AssertionError):
        consume(Collection({"v": ArrayColumn("v", ROWS)}, vocab=Vocab(["a"])))
    consume(full())
    assert plain_ids(full().ids) == [1, 2, 3, 4]
