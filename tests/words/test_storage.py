"""Storage: the rows of a model, dense or as codes, given out as copies that nobody shares."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.codecs.product import Product
from polyvec.core.columns import ArrayColumn
from polyvec.testing import vectors
from polyvec.words.storage import Storage

ROWS = vectors(9, 4)
CODEC = Product(vectors(16, 2).reshape(2, 8, 2), norms=True)
PARTS = CODEC.encode(ROWS)


def dense(mmap: bool = False) -> Storage:
    return Storage(ArrayColumn("v", ROWS.copy()), mmap=mmap)


def coded() -> Storage:
    column = ArrayColumn("v", PARTS["codes"], codec=CODEC, parts=dict(PARTS), shape=(9, 4), encoding="pq")
    return Storage(column, mmap=False)


@pytest.mark.parametrize("make", [dense, coded])
def test_rows_come_by_number_slice_list_and_mask(make) -> None:
    storage = make()
    whole = np.asarray(storage)
    assert len(storage) == 9 and whole.shape == storage.shape == (9, 4)
    for key in (3, -1, slice(2, 5), [0, -1, 0], np.arange(9) % 2 == 0, []):
        wanted = whole[key] if not isinstance(key, list) else whole[np.array(key, int)]
        assert np.array_equal(storage[key], wanted)
    for bad in (9, [9], -10):
        with pytest.raises(IndexError):
            storage[bad]


@pytest.mark.parametrize("mmap", [True, False])
def test_what_is_given_out_is_not_shared_and_what_is_held_cannot_be_written(mmap: bool) -> None:
    storage = dense(mmap)
    for rows in (storage[:], storage[0], storage[[1, 2]]):
        rows[...] = 7
    assert np.array_equal(storage[:], ROWS)
    with pytest.raises(ValueError, match="read-only"):
        storage.matrix[0, 0] = 1


def test_codes_are_kept_as_they_are_and_written_as_they_are() -> None:
    storage = coded()
    assert storage.quantized and storage.encoding == "pq" and not dense().quantized
    assert storage.nbytes == PARTS["codes"].nbytes + PARTS["norms"].nbytes and dense().nbytes == ROWS.nbytes
    [block] = storage.column("v").blocks()
    assert block.codec == CODEC and np.array_equal(block.parts["codes"], PARTS["codes"])
    assert np.array_equal(dense().column("v")[:], ROWS)


def test_an_array_of_another_kind_is_one() -> None:
    assert np.asarray(dense(), np.float64).dtype == np.float64 and dense().floats().dtype == np.float32
