"""The contract of every write, in one place: encodings and options that a format does not declare are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import PolyvecError
from polyvec.testing import vectors
from polyvec.writing.options import ENCODINGS

FORMATS = [f for f in pv.formats.all_formats() if f.writable and not f.holds.own_columns]
CASES = [(f, e) for f in FORMATS for e in ENCODINGS]


def sample() -> pv.Collection:
    rows = vectors(600, 8)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return pv.Collection.from_arrays(rows, vocab=[f"word{i}" for i in range(600)])


def target(folder: Path, format, encoding: str) -> Path:
    suffix = ".f16bin" if format.name == "bins" and encoding == "float16" else format.suffixes[0]
    return folder / f"a{suffix}"


@pytest.mark.parametrize(("format", "encoding"), CASES, ids=[f"{f.name}-{e}" for f, e in CASES])
def test_declared_encodings_are_written_and_others_refused(tmp_path: Path, format, encoding: str) -> None:
    if format.name == "floret":
        pytest.skip("holds subwords only")
    path, given = target(tmp_path, format, encoding), sample()
    if encoding not in format.holds.encodings:
        for dry_run in (False, True):
            with pytest.raises(pv.InputError, match=f"hold no {encoding} encoding; there (is|are) ") as caught:
                pv.write(path, given, encoding=encoding, format=format.name, dry_run=dry_run)
        able = [f.name for f in pv.formats.all_formats() if f.writable and encoding in f.holds.encodings]
        assert all(name in str(caught.value) for name in able), "it names who has it"
        assert not list(tmp_path.iterdir())
        return
    receipt = pv.write(path, given, encoding=encoding, format=format.name)
    assert receipt.format == format.name and receipt.loss is not None
    with pv.open(path, format=format.name) as found:
        rows = found.vectors[:].astype(np.float64)
        if encoding in ("raw", "lossless"):
            assert receipt.loss.min_cosine > 0.9999999, "raw loses nothing beyond the rounding of norms"
            return
        error = np.abs(rows - sample().vectors[:])
        assert not receipt.loss.exact and 0 < receipt.loss.max_error < 0.8
        assert receipt.loss.max_error <= error.max() + 1e-7 or "norms" in found.columns
        shown = (found.vectors.encoding, found.vectors.dtype.name)
        assert encoding in shown, f"asked for {encoding}, found {shown}"


def test_the_refusal_says_what_the_format_has_and_who_has_the_other(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError) as caught:
        pv.write(tmp_path / "a.bin", sample(), encoding="int8", format="word2vec")
    assert str(caught.value) == "word2vec files hold no int8 encoding; there is raw; cvc, i8bin, weights hold int8"


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("a.fbin", {"one": vectors(3, 2), "two": vectors(3, 2)}, {}),
        ("a.ibin", vectors(3, 2), {}),
        ("a.cvc", vectors(3, 2), {"encoding": "pq"}),
        ("a.cvc", vectors(3, 2), {"layout": "odd"}),
        ("a.cvc", {"one": vectors(3, 2), "two": vectors(4, 2)}, {}),
        ("a.npy", vectors(3, 2), {"color": "red"}),
        ("a.parquet", vectors(3, 2), {"compression": "odd"}),
        ("a.hdf5", vectors(3, 2), {"compression": "odd"}),
        ("a.i8bin", vectors(3, 2, np.float64) * 0, {}),
        ("a.npz", pv.Collection.from_arrays({"ids": np.arange(5), "flat": vectors(5, 3)}), {}),
        ("nowhere/a.fbin", vectors(3, 2), {}),
        ("a.unknown", vectors(3, 2), {}),
    ],
)
def test_a_dry_run_refuses_what_the_run_refuses(tmp_path: Path, name: str, data, options) -> None:
    said = []
    for dry_run in (True, False):
        with pytest.raises(PolyvecError) as caught:
            pv.write(tmp_path / name, data, dry_run=dry_run, **options)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]
    assert not list(tmp_path.iterdir())


def test_a_dry_run_leaves_no_trace_and_measures_nothing(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.i8bin", sample(), dry_run=True)
    assert receipt.dry_run and receipt.loss is None and receipt.bytes == 0 and receipt.sidecars
    assert not list(tmp_path.iterdir())


def test_a_dry_run_to_resume_refuses_what_the_run_refuses(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.npz", {"one": vectors(3, 2), "two": vectors(4, 2)})
    said = []
    for dry_run in (True, False):
        with pytest.raises(pv.InputError) as caught:
            pv.convert(tmp_path / "a.npz", tmp_path / "b.hdf5", resume=True, dry_run=dry_run)
        said.append(str(caught.value))
    assert said[0] == said[1] and "--resume works row by row" in said[0]


def test_an_option_of_writing_is_no_option_of_reading(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.parquet", vectors(3, 2), compression="zstd")
    with pytest.raises(
        pv.InputError, match=r"^compression is an option of writing parquet files, which are not read by it$"
    ):
        pv.open(tmp_path / "a.parquet", compression="zstd")


@pytest.mark.parametrize(
    ("name", "dtype", "words"),
    [
        ("a.weights", np.float64, "column 'vectors' is float64, which weights files cannot hold; they hold float32, "),
        ("a.npy", np.longdouble, "which npy files cannot hold; they hold bool, integers, float16, float32, float64"),
        ("a.i8bin", np.uint8, "column 'vectors' is uint8, which i8bin files cannot hold"),
    ],
)
def test_a_dtype_that_is_not_held_is_refused_before_anything_is_written(tmp_path: Path, name, dtype, words) -> None:
    if np.dtype(dtype) == np.float64 and name == "a.npy":
        pytest.skip("long doubles are doubles here")
    with pytest.raises(pv.InputError) as caught:
        pv.write(tmp_path / name, vectors(3, 512, np.float32).astype(dtype))
    assert words in str(caught.value) and not list(tmp_path.iterdir())


def test_what_a_variant_does_not_hold_names_the_one_that_does(tmp_path: Path) -> None:
    with pytest.raises(
        pv.InputError, match=r"^\.fbin files hold no float16 encoding; name the output \.f16bin or \.hbin$"
    ):
        pv.write(tmp_path / "a.fbin", vectors(3, 2), encoding="float16")
    with pytest.raises(pv.LossyConversion, match="float32 values would be cut to int32"):
        pv.write(tmp_path / "a.ibin", vectors(3, 2))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".arrow", ".parquet", ".npy", ".fbin"])
def test_rows_of_the_other_byte_order_are_the_same_rows(tmp_path: Path, suffix: str) -> None:
    pv.write(tmp_path / f"a{suffix}", vectors(3, 2).astype(">f4"))
    with pv.open(tmp_path / f"a{suffix}") as found:
        assert found.vectors[:].tobytes() == vectors(3, 2).tobytes()


def test_bfloat16_rows_are_floats_to_every_format_that_rounds(tmp_path: Path) -> None:
    import ml_dtypes

    rows = vectors(3, 2).astype(ml_dtypes.bfloat16)
    receipt = pv.write(tmp_path / "rows", rows, format="vecs")
    assert receipt.loss is not None and receipt.loss.exact
