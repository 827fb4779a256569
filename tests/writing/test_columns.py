"""Several columns: the main one stays the main one, the encoding asked for is its own, all that changed is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors

MANY = [".cvc", ".npz", ".hdf5", ".safetensors", ".parquet", ".arrow"]
ARRAYS = {"aside": vectors(30, 3, seed=1), "middle": vectors(30, 8), "z": np.arange(30, dtype=np.int64) + 2**60}


@pytest.mark.parametrize("suffix", MANY)
@pytest.mark.parametrize("main", ["aside", "middle"])
def test_the_main_column_stays_the_main_one(tmp_path: Path, suffix: str, main: str) -> None:
    path = tmp_path / f"a{suffix}"
    receipt = pv.write(path, pv.Collection.from_arrays(ARRAYS, main=main))
    assert receipt.loss is not None and receipt.loss.exact and not receipt.column_losses
    with pv.open(path) as found:
        assert found.main == main
        for name, array in ARRAYS.items():
            assert found[name].dtype == array.dtype and np.array_equal(found[name][:], array), name


@pytest.mark.parametrize("suffix", MANY)
@pytest.mark.parametrize("other", MANY)
def test_columns_travel_between_formats(tmp_path: Path, suffix: str, other: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{other}"
    pv.write(first, pv.Collection.from_arrays(ARRAYS, main="middle"))
    receipt = pv.convert(first, second)
    assert receipt.loss is not None and receipt.loss.exact and receipt.dim == 8
    with pv.open(second) as found:
        assert found.main == "middle"
        assert all(np.array_equal(found[name][:], array) for name, array in ARRAYS.items())


@pytest.mark.parametrize(
    ("suffix", "encoding"),
    [(s, e) for s in MANY for e in pv.formats.find_format(s)[0].holds.encodings],
)
def test_an_encoding_is_the_main_columns_alone(tmp_path: Path, suffix: str, encoding: str) -> None:
    path = tmp_path / f"a{suffix}"
    receipt = pv.write(path, pv.Collection.from_arrays(ARRAYS, main="middle"), encoding=encoding)
    assert receipt.loss is not None and receipt.loss.exact == (encoding in ("raw", "lossless"))
    assert not receipt.column_losses
    with pv.open(path) as found:
        error = np.abs(found["middle"][:].astype(np.float64) - ARRAYS["middle"]).max()
        assert receipt.loss.max_error == error
        assert np.array_equal(found["aside"][:], ARRAYS["aside"]) and np.array_equal(found["z"][:], ARRAYS["z"])


def test_a_side_column_keeps_the_encoding_it_has(tmp_path: Path) -> None:
    halves = {"main": vectors(30, 8), "side": vectors(30, 8, np.float16)}
    pv.write(tmp_path / "a.cvc", pv.Collection.from_arrays(halves))
    pv.convert(tmp_path / "a.cvc", tmp_path / "b.cvc", encoding="int8")
    with pv.open(tmp_path / "b.cvc") as found:
        assert (found["main"].encoding, found["side"].encoding) == ("int8", "float16")
        assert np.array_equal(found["side"][:], halves["side"])


def test_other_columns_that_change_are_measured_and_named(tmp_path: Path) -> None:
    tensors = {"embeddings.word_embeddings.weight": vectors(20, 8), "encoder.weight": vectors(8, 8, seed=3)}
    receipt = pv.write(tmp_path / "a.weights", pv.Collection.from_arrays(tensors), encoding="float16")
    assert receipt.loss is not None and not receipt.loss.exact
    loss = receipt.column_losses["encoder.weight"]
    expected = np.abs(tensors["encoder.weight"].astype(np.float16).astype(np.float64) - tensors["encoder.weight"])
    assert loss.rows == 8 and loss.max_error == expected.max()
    assert receipt.to_dict()["column_losses"]["encoder.weight"]["max_error"] == expected.max()


def test_a_format_that_would_choose_another_main_column_refuses(tmp_path: Path) -> None:
    arrays = {"ids": np.arange(5), "flat": vectors(5, 3)}
    with pytest.raises(pv.LossyConversion, match="'flat' becomes the main column, not 'ids'"):
        pv.write(tmp_path / "a.npz", pv.Collection.from_arrays(arrays, main="ids"))
    assert not list(tmp_path.iterdir())


def test_whole_numbers_are_not_encoded_in_silence(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match="only 'none' keeps whole numbers"):
        pv.write(tmp_path / "a.cvc", {"ids": np.arange(20).reshape(5, 4), "flat": vectors(5, 3)}, encoding="int8")


def test_a_layout_without_a_place_for_words_says_that_they_are_left_out(tmp_path: Path) -> None:
    given = pv.Collection.from_arrays(vectors(5, 3), vocab=list("abcde"), metadata={"a": 1})
    receipt = pv.write(tmp_path / "a.parquet", given, layout="vectordbbench")
    assert receipt.dropped == ("words", "metadata") and receipt.loss is not None and receipt.loss.exact
    with pytest.raises(pv.LossyConversion, match="choose one with --column"):
        pv.write(tmp_path / "b.parquet", ARRAYS, layout="vectordbbench")
