"""HDF5, through the suite that every format inherits, and against h5py itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.hdf5 import FORMAT
from polyvec.testing import Sample, hostile, vectors
from polyvec.testing.apart import ApartSuite, in_child

h5py = pytest.importorskip("h5py")


class TestHdf5(ApartSuite):
    format = FORMAT
    library = "HDF5"

    def samples(self) -> Iterable[Sample]:
        metadata = {"distance": "angular", "dimension": 5, "nested": {"a": [1, None, "ü"]}, "on": True, "x": 0.5}
        arrays = {"train": vectors(6, 5), "test": vectors(2, 5, seed=1), "neighbors": vectors(2, 3, np.int32)}
        yield Sample("a benchmark", Collection.from_arrays(arrays, metadata=metadata))
        yield Sample("compressed", Collection.from_arrays(vectors(9, 4)), suffix=".h5", options={"compression": "gzip"})
        yield Sample("halves", Collection.from_arrays(vectors(3, 4, np.float16)))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 4)))
        words = Collection.from_arrays({"b/c": vectors(3, 4), "a": vectors(3, 2, np.int64)}, vocab=["x", "y", "z"])
        yield Sample("a main column that no rule finds, and words", words)


def test_damage_is_really_tried_and_a_crash_survived(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.h5", vectors(6, 5))
    data = (tmp_path / "a.h5").read_bytes()
    assert len(list(islice(hostile.bit_flips(data), 0, None, TestHdf5.every))) > 100
    done, complaint = in_child([("x", b""), ("y", b"")], 0, lambda what, _: os.abort() if what == "y" else None)
    assert (done, complaint) == (1, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.h5"


def test_contiguous_rows_are_read_by_offset_and_copied_in_the_kernel(path: Path, tmp_path: Path) -> None:
    rows = vectors(50, 6)
    with h5py.File(path, "w", userblock_size=512) as f:
        f["a/train"] = rows
    with pv.open(path) as c:
        extent = next(c["a/train"].extents())
        assert path.read_bytes()[extent.offset : extent.offset + extent.size] == rows.tobytes()
        assert c.vectors.segments(c.vectors.codec) is not None
    pv.convert(path, tmp_path / "x.fbin")
    with pv.open(tmp_path / "x.fbin") as c:
        assert np.array_equal(c.vectors, rows)


@pytest.mark.parametrize(
    "how",
    [{"chunks": (7, 3)}, {"compression": "gzip"}, {"shuffle": True, "compression": "lzf"}, {"maxshape": (None, 6)}],
)
def test_chunked_rows_are_read_through_the_library(path: Path, how: dict[str, Any]) -> None:
    rows = vectors(50, 6)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=rows, **how)
    with pv.open(path) as c:
        assert np.array_equal(c.vectors, rows) and np.array_equal(c.vectors[[40, 3]], rows[[40, 3]])


def test_big_endian_rows_are_converted_and_said(path: Path) -> None:
    rows = vectors(5, 6)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=rows, dtype=">f4")
    with pytest.warns(pv.FormatWarning, match="big-endian float32 is converted"), pv.open(path) as c:
        assert c.vectors.dtype == np.dtype("<f4") and np.array_equal(c.vectors, rows)


def test_a_file_without_two_dimensions_says_what_it_has(path: Path) -> None:
    with h5py.File(path, "w") as f:
        f["flat"], f["words"] = np.arange(5), ["a", "b"]
    with pytest.raises(pv.Unsupported, match=r"no dataset of numbers has two dimensions.*flat \(5,\) int64"):
        pv.open(path)


def test_storage_in_other_files_is_never_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(400))
    with h5py.File(path, "w") as f:
        f["x"] = vectors(5, 6)
        f.create_dataset("away", (10, 10), "f4", external=[(str(tmp_path / "secret"), 0, 400)])
        f["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")
    with pytest.warns(pv.FormatWarning, match="'away' is left out"), pv.open(path) as c:
        assert list(c.columns) == ["x"]


def test_a_promise_without_bytes_is_corrupt(path: Path) -> None:
    with h5py.File(path, "w") as f:
        f.create_dataset("x", (2**40, 128), "f4", chunks=(1, 128))
    with pytest.raises(pv.Corrupt, match="more than its bytes can hold"):
        pv.open(path)


def test_the_dataset_is_named_as_asked_and_compression_is_off_by_default(path: Path) -> None:
    pv.write(path, vectors(5, 6), dataset="base")
    with h5py.File(path) as f:
        assert list(f) == ["base"] and f["base"].compression is None
    with pv.open(path, dataset="base") as c:
        assert c.main == "base"
    with pytest.raises(pv.InputError, match="no dataset 'q'; there are base"):
        pv.open(path, dataset="q")
    with pytest.raises(pv.InputError, match="unknown compression"):
        pv.write(path, vectors(5, 6), compression="zip")


def test_float16_on_request_and_its_digest_is_that_of_the_file(path: Path) -> None:
    import hashlib

    receipt = pv.write(path, vectors(5, 6), encoding="float16", sha256=True)
    assert receipt.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    with h5py.File(path) as f:
        assert f["vectors"].dtype == np.float16


def test_without_h5py_the_extra_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pv.write(path, vectors(5, 6))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(pv.MissingExtra, match=r"pip install 'polyvec\[hdf5\]'"):
        pv.open(path)
    with pytest.raises(pv.MissingExtra):
        pv.write(path, vectors(5, 6))


def test_standard_output_takes_hdf5(path: Path, capfdbinary: Any) -> None:
    pv.write("-", vectors(5, 6), format="hdf5")
    path.write_bytes(capfdbinary.readouterr().out)
    with pv.open(path) as c:
        assert np.array_equal(c.vectors, vectors(5, 6))


def test_threads_read_compressed_datasets_as_one_thread_does(tmp_path: Path) -> None:
    rows = {"vectors": vectors(600, 16), "more": vectors(500, 3, np.int64, seed=1)}
    pv.write(tmp_path / "a.h5", Collection.from_arrays(rows), compression="gzip", measure=False)
    with pv.open(tmp_path / "a.h5") as collection, ThreadPoolExecutor(8) as pool:

        def read(seed: int) -> None:
            random = np.random.default_rng(seed)
            for _ in range(30):
                for name, wanted in rows.items():
                    start, stop = sorted(random.integers(0, len(wanted), 2).tolist())
                    assert (collection[name][start:stop] == wanted[start:stop]).all()
                    some = random.integers(0, len(wanted), 5)
                    assert (collection[name].take(some) == wanted[some]).all()

        list(pool.map(read, range(8)))


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_closed_file_says_that_it_is_closed(tmp_path: Path, compression: str) -> None:
    pv.write(tmp_path / "a.h5", vectors(4, 3), compression=compression)
    with pv.open(tmp_path / "a.h5") as collection:
        assert collection.vectors[1].shape == (3,)
    with pytest.raises(pv.InputError, match=r"a\.h5 is closed$"):
        collection.vectors[:]
