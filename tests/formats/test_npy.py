"""NumPy's .npy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.npy import FORMAT
from polyvec.testing import FormatSuite, Sample, strategies, vectors


class TestNpy(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        for dtype in ("f4", "f8", "i1", "u2"):
            yield Sample(dtype, Collection.from_arrays(vectors(5, 3, np.dtype(dtype))))
        yield Sample("booleans", Collection.from_arrays(vectors(5, 3) > 0))
        yield Sample("bfloat16", Collection.from_arrays(vectors(5, 3, ml_dtypes.bfloat16)))
        yield Sample("one dimension", Collection.from_arrays(np.arange(6, dtype=np.int64)))
        yield Sample("three dimensions", Collection.from_arrays(vectors(4, 6).reshape(4, 3, 2)))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        rows = vectors(5, 3)
        half = Collection.from_arrays(rows.astype(np.float16))
        yield Sample("asked for float16", Collection.from_arrays(rows), encoding="float16", expected=half)
        full = Collection.from_arrays(rows, vocab=["a", "b\nc", "d", "e", "f"], ids=list("vwxyz"))
        yield Sample("words with line breaks", full)

    def hostile_files(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        for shape in (
            b"(0, 4611686018427387904)",
            b"(4611686018427387904, 0)",
            b"(18446744073709551616,)",
            b"(-5, 3)",
            b"(2, 0)",
            b"()",
            b"(1e3, 3)",
            b"(True, 3)",
            b"(5, 3" + b", 1" * 40 + b")",
        ):
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", }"
            header += b" " * (-(len(header) + 11) % 64) + b"\n"
            yield shape.decode(), b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data[-60:]


GOLDEN = Path(__file__).parent.parent / "golden" / "npy"
BASE = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


@pytest.mark.filterwarnings("ignore::polyvec.FormatWarning")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("float32", BASE),
        ("float64_fortran", BASE.astype(np.float64)),
        ("float32_big_endian", BASE),
        ("int64", np.arange(4) - 2**40),
        ("three_dimensions", BASE.reshape(2, 3, 2)),
        ("no_rows", BASE[:0]),
        ("version_2", BASE),
        ("version_3", BASE),
    ],
)
def test_files_that_numpy_wrote_read_as_numpy_reads_them(name: str, expected: np.ndarray) -> None:
    with pv.open(GOLDEN / f"{name}.npy") as collection:
        column = collection.vectors
        assert column.dtype == expected.dtype and column.shape == expected.shape
        assert np.array_equal(column.to_numpy(), expected)
        for start, stop in ((0, 2), (1, 3), (2, 2)):
            assert np.array_equal(column[start:stop], expected[start:stop])


@pytest.mark.parametrize("name", ["float32", "int64", "three_dimensions", "no_rows"])
def test_what_we_write_is_what_numpy_writes(name: str, tmp_path: Path) -> None:
    pv.convert(GOLDEN / f"{name}.npy", tmp_path / "copy.npy")
    assert (tmp_path / "copy.npy").read_bytes() == (GOLDEN / f"{name}.npy").read_bytes()


@pytest.mark.parametrize("name", ["objects", "structured", "complex"])
def test_objects_and_records_are_refused(name: str) -> None:
    with pytest.raises(pv.Unsupported, match="descr"):
        pv.open(GOLDEN / f"{name}.npy")


@pytest.mark.parametrize("name", ["float64_fortran", "float32_big_endian"])
def test_an_unusual_order_is_said_aloud(name: str) -> None:
    with pytest.warns(pv.FormatWarning, match=r"Fortran|big-endian"):
        pv.open(GOLDEN / f"{name}.npy").close()


@given(array=strategies.arrays(np.float32, finite=False))
@settings(max_examples=30, deadline=None)
def test_numpy_reads_any_array_we_write(array: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pv.write(f"{folder}/a.npy", array, durable=False, measure=False)
        found = np.load(f"{folder}/a.npy")
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.tobytes() == array.tobytes()
