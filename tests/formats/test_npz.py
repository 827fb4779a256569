"""npz, through the suite that every format inherits, and against NumPy itself."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.formats.npz import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors

ROWS = vectors(30, 4)


class TestNpz(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        yield Sample("floats", Collection.from_arrays(vectors(5, 3)))
        many = {
            "b": vectors(3, 2, np.int8),
            "a": vectors(2, 3, np.float64),
            "flag": np.array([True, False]),
            "bf": vectors(2, 2).astype(ml_dtypes.bfloat16),
        }
        yield Sample("many", Collection.from_arrays(many))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))

    def hostile_files(self, data: bytes) -> Iterable[tuple[str, bytes]]:
        yield "a bomb", bomb(10**9)
        yield "twice the same name", zipped([("a.npy", npy_bytes(ROWS)), ("a.npy", npy_bytes(ROWS))])
        yield "deflated noise", zipped([("a.npy", npy_bytes(ROWS))], zipfile.ZIP_DEFLATED)[:-60]


def npy_bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    import warnings

    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def bomb(size: int) -> bytes:
    """An archive whose directory says that its small file becomes ``size`` bytes."""
    data = bytearray(zipped([("a.npy", npy_bytes(ROWS))], zipfile.ZIP_DEFLATED))
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(data)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save: Any) -> None:
    labels = np.arange(30)
    save(tmp_path / "x.npz", labels=labels, emb=ROWS, big=ROWS.astype(">f4"), turned=np.asfortranarray(ROWS))
    with pytest.warns(pv.FormatWarning), pv.open(tmp_path / "x.npz") as c:
        assert c.main == "emb" and list(c.columns) == ["labels", "emb", "big", "turned"]
        for name in ("emb", "big", "turned"):
            assert np.array_equal(c[name], ROWS) and c[name].dtype == np.dtype("<f4")
            assert np.array_equal(c[name][[20, 3]], ROWS[[20, 3]]) and np.array_equal(c[name][5:9], ROWS[5:9])
        assert np.array_equal(c["labels"], labels)
    assert pv.verify(tmp_path / "x.npz").ok


def test_big_endian_and_fortran_order_are_said(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", big=ROWS.astype(">f4"), turned=np.asfortranarray(ROWS))
    with pytest.warns(pv.FormatWarning) as caught:
        pv.open(tmp_path / "x.npz").close()
    said = " ".join(str(w.message) for w in caught)
    assert "'big': big-endian float32 is converted" in said and "'turned': Fortran order" in said


def test_numpy_reads_what_is_written(tmp_path: Path) -> None:
    pv.write(tmp_path / "x.npz", {"a": ROWS, "b": vectors(3, 2, np.int64)})
    with np.load(tmp_path / "x.npz") as found:
        assert np.array_equal(found["a"], ROWS) and np.array_equal(found["b"], vectors(3, 2, np.int64))


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.savez(tmp_path / "x.npz", trap=trap)
    with pytest.raises(pv.Unsupported, match="pickles and are never read"):
        pv.open(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", trap=trap, emb=ROWS)
    with pytest.warns(pv.FormatWarning, match="'trap' is left out"), pv.open(tmp_path / "y.npz") as c:
        assert list(c.columns) == ["emb"]
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    with pytest.raises(pv.Unsupported, match="pickles and are never read"):
        pv.open(tmp_path / "x.npy")
    assert not (tmp_path / "sprung").exists()


def test_a_deflated_array_is_read_in_bounded_memory(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((4000, 4096), np.float32))
    with pv.open(tmp_path / "x.npz") as c:
        sizes = [block.nbytes for block in c.vectors.blocks()]
        assert max(sizes) <= 8 << 20 and sum(sizes) == 4000 * 4096 * 4


def test_a_promise_beyond_what_deflate_can_do_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(bomb(10**9))
    with pytest.raises(pv.Corrupt, match="more than its bytes can hold"):
        pv.open(tmp_path / "x.npz")


def test_files_that_share_their_bytes_are_corrupt(tmp_path: Path) -> None:
    data = bytearray(zipped([("a.npy", npy_bytes(ROWS)), ("b.npy", npy_bytes(ROWS))]))
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)  # its header is a's
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(pv.Corrupt, match="overlap"):
        pv.open(tmp_path / "x.npz")


def test_a_flipped_bit_is_found_by_the_checksum(tmp_path: Path) -> None:
    pv.write(tmp_path / "x.npz", ROWS)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[300] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    report = pv.verify(tmp_path / "x.npz")
    assert not report.ok and "CRC" in report.findings[0].message
