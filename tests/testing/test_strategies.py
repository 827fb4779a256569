"""Strategies: what they make stays within what was asked, and reaches its corners."""

from __future__ import annotations

import numpy as np
from hypothesis import find, given, settings

from polyvec.core.format import Holds
from polyvec.testing import strategies

few = settings(max_examples=40, deadline=None, database=None)


@few
@given(strategies.arrays("<f4", min_rows=1, max_rows=3, max_dim=2, bound=4))
def test_arrays_keep_their_shape_dtype_and_bound(found):
    assert found.dtype == np.float32 and 1 <= found.shape[0] <= 3 and 1 <= found.shape[1] <= 2
    assert (np.abs(found) <= 4).all()


def test_arrays_reach_no_rows_and_nan_where_they_may():
    assert len(find(strategies.arrays(), lambda found: not len(found), settings=few)) == 0
    assert find(strategies.arrays(finite=False), lambda found: bool(np.isnan(found).any()), settings=few) is not None


@few
@given(strategies.arrays("<f2"))
def test_arrays_are_finite_unless_asked(found):
    assert np.isfinite(found).all()


@few
@given(strategies.collections(Holds()))
def test_a_collection_has_only_what_its_format_holds(found):
    assert found.vocab is None and found.records is None and found.ids is None and not found.metadata


@few
@given(strategies.collections(dtype="<i4", max_rows=2, max_dim=3))
def test_a_collection_has_the_dtype_and_shape_asked_for_and_a_word_for_each_row(found):
    assert found.vectors.dtype == np.int32 and found.rows <= 2 and found.dim <= 3
    assert found.vocab is None or len(found.vocab) == found.rows
    assert found.records is None or len(found.records) == found.rows


@few
@given(strategies.words(4))
def test_there_is_a_word_for_each_row_and_each_can_be_written(found):
    assert len(found) == 4 and all(word.encode() is not None for word in found)
