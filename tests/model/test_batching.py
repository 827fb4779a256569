"""Batches: every text once, under the budget, beside texts of like length."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyvec.model.batching import make_batch, plan_batches


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 60), max_size=40),
    st.integers(1, 200),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(0, 40),
)
def test_every_text_is_in_one_batch_that_keeps_to_its_bounds(lengths, budget, most, whole) -> None:
    batches = plan_batches(lengths, budget=budget, batch_size=most, whole=whole)
    assert sorted(np.concatenate([*batches, []]).astype(int).tolist()) == list(range(len(lengths)))
    for rows in batches:
        sizes = [lengths[row] for row in rows]
        assert len(rows) == 1 or max(sizes) * len(rows) <= budget
        assert most is None or len(rows) <= most
        assert whole is None or max(sizes) <= whole or len(set(sizes)) == 1


def test_longest_come_first_and_equals_in_their_order() -> None:
    assert [rows.tolist() for rows in plan_batches([1, 5, 1, 5], budget=5)] == [[1], [3], [0, 2]]


def test_a_batch_is_padded_to_its_longest_and_no_further() -> None:
    batch = make_batch(np.array([2, 0]), [[7, 8], [1] * 9, [4, 5, 6]], pad_id=99)
    assert batch.ids.tolist() == [[4, 5, 6], [7, 8, 99]] and batch.lengths.tolist() == [3, 2]


def test_texts_of_nothing_are_padding_alone() -> None:
    batch = make_batch(np.array([0, 1]), [[], []], pad_id=3)
    assert batch.ids.shape[0] == 2 and (batch.ids == 3).all() and not batch.lengths.any()
