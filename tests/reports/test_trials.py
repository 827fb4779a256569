"""Encodings on trial: what rows become in fewer bytes, and how many bytes those are."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.codecs import AffineUint8
from polyvec.core.errors import InputError
from polyvec.formats.cvc.encoding import CHUNK_ROWS
from polyvec.reports.trials import TRIALS, Look, choose_trials, fit_chunks, fit_product, four_bits, one_bit, through
from polyvec.testing import vectors

ROWS = vectors(40, 12)
LOOK = Look(float(ROWS.min()), float(ROWS.max()), ROWS)
NUMBERS = np.arange(40)


@pytest.mark.parametrize(
    ("name", "size"),
    [("float16", 24), ("int8-row", 16), ("int4", 10), ("bit", 6), ("pq", 2), ("half-dims", 24), ("quarter-dims", 12)],
)
def test_a_row_takes_the_bytes_it_says(name: str, size: int) -> None:
    assert TRIALS[name].row_bytes(12) == size
    assert TRIALS["int4"].row_bytes(11) == 10 and TRIALS["bit"].row_bytes(9) == 6


def test_every_trial_gives_rows_of_the_same_shape_and_leaves_the_given_ones() -> None:
    before = ROWS.copy()
    for trial in TRIALS.values():
        found = trial.fit(LOOK)(ROWS, NUMBERS)
        assert found.shape == ROWS.shape and found.dtype == np.float32, trial.name
    assert np.array_equal(ROWS, before)


def test_four_bits_are_within_half_a_step_and_one_bit_keeps_the_sign() -> None:
    step = np.abs(ROWS).max(axis=1, keepdims=True) / 7
    assert (np.abs(four_bits(ROWS) - ROWS) <= step * 0.5001).all()
    signs = one_bit(ROWS)
    assert np.array_equal(np.sign(signs), np.where(ROWS < 0, -1, 1))
    assert np.allclose(np.abs(signs), np.abs(ROWS).mean(axis=1, keepdims=True), rtol=1e-6)
    assert not four_bits(np.zeros((2, 3), np.float32)).any()


def test_every_chunk_has_the_range_of_its_own_rows() -> None:
    rows = np.concatenate([ROWS[:2], ROWS[2:4] * 1000])
    numbers = np.array([0, 1, CHUNK_ROWS, CHUNK_ROWS + 1])
    ends = {n: (float(part.min()), float(part.max())) for n, part in ((0, rows[:2]), (1, rows[2:]))}
    found = fit_chunks(Look(0, 0, rows, ends))(rows, numbers)
    for part in (slice(0, 2), slice(2, 4)):
        assert np.array_equal(found[part], through(AffineUint8.fit([rows[part]]), rows[part]))


def test_product_quantisation_learns_rows_that_repeat_exactly() -> None:
    few = np.repeat(vectors(20, 12), 30, axis=0)
    assert np.abs(fit_product(Look(0, 0, few))(few, np.arange(len(few))) - few).max() < 1e-5
    with pytest.raises(InputError, match="at least 2 rows"):
        fit_product(Look(0, 0, few[:1]))


def test_trials_are_chosen_by_name_and_int8_is_three() -> None:
    assert [trial.name for trial in choose_trials(["pq", "int8", "pq"])] == [
        "pq",
        "int8-file",
        "int8-chunk",
        "int8-row",
    ]
    assert choose_trials(None) == list(TRIALS.values())
    with pytest.raises(InputError, match="encoding 'flot16' is not on trial"):
        choose_trials(["flot16"])
