"""HDF5, through the suite that every format inherits, and against h5py itself."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.hdf5 import FORMAT
from polyvec.testing import FormatSuite, Sample, hostile, vectors
from polyvec.testing.contents import consume
from polyvec.testing.limits import Clock

h5py = pytest.importorskip("h5py")

EVERY = 17  # of the hostile files this share is tried: each costs a few milliseconds in the library
PATIENCE = 10.0  # seconds until a file in the library's hands counts as hanging


class TestHdf5(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        metadata = {"distance": "angular", "dimension": 5, "nested": {"a": [1, None, "ü"]}, "on": True, "x": 0.5}
        arrays = {"train": vectors(6, 5), "test": vectors(2, 5, seed=1), "neighbors": vectors(2, 3, np.int32)}
        yield Sample("a benchmark", Collection.from_arrays(arrays, metadata=metadata))
        yield Sample("compressed", Collection.from_arrays(vectors(9, 4)), suffix=".h5", options={"compression": "gzip"})
        yield Sample("halves", Collection.from_arrays(vectors(3, 4, np.float16)))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 4)))
        words = Collection.from_arrays({"b/c": vectors(3, 4), "a": vectors(3, 2, np.int64)}, vocab=["x", "y", "z"])
        yield Sample("a main column that no rule finds, and words", words)

    def _examine_all(self, sample: Sample, export: dict[str, bytes], files: Callable[..., Iterable[Any]], *,
                     lenient: tuple[bool, ...] = (False,), must_tell: Any = None) -> None:  # fmt: skip
        """Damaged files go to a child process: the library may crash on them. Crashes are listed, not failed."""
        (name, data), variant = next(iter(export.items())), self._variant(sample, export)
        bad = [(what, changed) for what, changed, *_ in islice(files(data), 0, None, EVERY)]
        consume(self._open(sample, data, export))
        at, crashes = 0, []
        while at < len(bad):
            at, complaint = _in_child(bad, at, lambda what, changed: self._examine(
                what, changed, sample, variant, {name: changed}, lenient[-1], _NO_CLOCK))  # fmt: skip
            if at < len(bad):
                assert complaint is None, complaint
                crashes.append(bad[at][0])
                at += 1
        assert len(crashes) < len(bad) // 10 + 2, "nearly every damaged file ends the process"
        for what in crashes:
            warnings.warn(f"the HDF5 library crashed or hung on: {what}", stacklevel=1)


class _NoClock(Clock):
    def __init__(self) -> None:
        self._armed = False


_NO_CLOCK = _NoClock()


def _in_child(bad: list[tuple[str, bytes]], start: int, examine: Callable[[str, bytes], Any]) -> tuple[int, str | None]:
    """Examine files from ``start`` on in a fork; where it stopped, and what it complained of (None: it died)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            faulthandler.disable()
            for what, changed in bad[start:]:
                try:
                    examine(what, changed)
                except AssertionError as error:
                    os.write(writing, b"!" + str(error).encode()[:900])
                    os._exit(1)
                os.write(writing, b".")
        os._exit(0)
    os.close(writing)
    done, complaint = start, None
    while select.select([reading], [], [], PATIENCE)[0]:
        piece = os.read(reading, 1000)
        if not piece:
            break
        good, mark, words = piece.partition(b"!")
        done += len(good)
        complaint = words.decode() if mark else None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    return done, complaint


def test_damage_is_really_tried(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.h5", vectors(6, 5))
    data = (tmp_path / "a.h5").read_bytes()
    assert len(list(islice(chain(hostile.bit_flips(data)), 0, None, EVERY))) > 100
    done, complaint = _in_child([("x", b""), ("y", b"")], 0, lambda what, _: os.abort() if what == "y" else None)
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


@pytest.mark.parametrize("how", [{"chunks": (7, 3)}, {"compression": "gzip"}, {"shuffle": True, "compression": "lzf"},
                                 {"maxshape": (None, 6)}])  # fmt: skip
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
