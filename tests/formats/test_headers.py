"""Headers that do not fit: a missing tail costs rows; a swapped or damaged header is named, and no shape is made up."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.fbin import FBINReader
from polyvec.testing import vectors

ROWS = vectors(40, 12)
KINDS = {"fbin": "f4", "ibin": "i4", "u32bin": "u4", "u8bin": "u1", "i8bin": "i1", "f16bin": "f2", "dbin": "f8"}


def rows_of(kind: str) -> np.ndarray:
    code = np.dtype(KINDS.get(kind, "f4"))
    return (ROWS * 100).astype(code) if code.kind == "i" else np.abs(ROWS * 10).astype(code)


def bins(kind: str, order: str = "<", values: str | None = None, wide: bool = False) -> bytes:
    rows = rows_of(kind)
    head = struct.pack(f"{order}{'QQ' if wide else 'II'}", *rows.shape)
    return head + rows.astype(rows.dtype.newbyteorder(values or order)).tobytes()


def read(path: Path, **options: object) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pv.FormatWarning)
        with pv.open(path, **options) as collection:
            return collection.vectors.to_numpy()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "i8bin"])
def test_a_byte_swapped_file_is_named_and_read_when_lenient(tmp_path: Path, kind: str, wide: bool) -> None:
    path = tmp_path / f"a.{kind}"
    for values in (">", "<"):  # some programs swap the header alone
        path.write_bytes(bins(kind, ">", values, wide))
        with pytest.raises(pv.Corrupt, match=r"big-endian byte order.*40 rows of 12 values.*--lenient"):
            pv.open(path)
        assert not pv.verify(path).ok
        with pytest.warns(pv.FormatWarning, match="big-endian byte order"):
            found = pv.open(path, lenient=True)
        assert np.array_equal(found.vectors.to_numpy(), rows_of(kind)), (kind, values)
        assert found.vectors.dtype == rows_of(kind).dtype
        found.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            receipt = pv.convert(path, tmp_path / "o.npy", lenient=True)
        assert np.array_equal(np.load(tmp_path / "o.npy"), rows_of(kind))
        assert any("big-endian" in note for note in receipt.notes)


def test_a_swapped_file_without_its_end_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.fbin"
    path.write_bytes(bins("fbin", ">")[:-100])
    with pytest.raises(pv.Corrupt, match="big-endian"):
        pv.open(path)
    assert np.array_equal(read(path, lenient=True), ROWS[:37] * 0 + rows_of("fbin")[:37])


def test_the_documents_reader_names_a_swapped_file_too(tmp_path: Path) -> None:
    (tmp_path / "a.fbin").write_bytes(bins("fbin", ">"))
    for strict in (False, True):
        with pytest.raises(pv.Corrupt, match="big-endian"):
            FBINReader(tmp_path / "a.fbin", strict=strict)


@pytest.mark.parametrize("kind", ["fvecs", "ivecs", "bvecs"])
def test_swapped_vecs_are_named_and_read_when_lenient(tmp_path: Path, kind: str) -> None:
    code = np.dtype({"fvecs": "f4", "ivecs": "i4", "bvecs": "u1"}[kind])
    rows = np.abs(ROWS * 10).astype(code)
    path = tmp_path / f"a.{kind}"
    for values in (">", "<"):
        stored = rows.astype(code.newbyteorder(values))
        path.write_bytes(b"".join(struct.pack(">i", 12) + row.tobytes() for row in stored))
        with pytest.raises(pv.Corrupt, match=r"big-endian byte order.*rows of 12 values.*--lenient"):
            pv.open(path)
        assert np.array_equal(read(path, lenient=True), rows)
        path.write_bytes(path.read_bytes()[:-5])
        assert np.array_equal(read(path, lenient=True), rows[:-1])
    data = bytearray(path.read_bytes())
    data[(4 + 12 * code.itemsize) * 7 + 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(pv.Corrupt, match=r"rows differ in dimension.*row 7 d"):
        read(path, lenient=True)


def test_swapped_ground_truth_is_named_and_read_when_lenient(tmp_path: Path) -> None:
    ids = np.argsort(ROWS, axis=1)
    near = np.sort(np.abs(ROWS), axis=1)
    for behind in (b"", near.astype(">f4").tobytes()):
        path = tmp_path / "a.truth"
        path.write_bytes(struct.pack(">II", 40, 12) + ids.astype(">i4").tobytes() + behind)
        with pytest.raises(pv.Corrupt, match=r"big-endian.*40 queries with 12 neighbours.*--lenient"):
            pv.open(path)
        with pytest.warns(pv.FormatWarning, match="big-endian"), pv.open(path, lenient=True) as found:
            assert np.array_equal(found["ids"].to_numpy(), ids)
            assert not behind or np.array_equal(found["distances"].to_numpy(), near)


def test_swapped_range_truth_is_named_and_read_when_lenient(tmp_path: Path) -> None:
    counts, ids = np.array([2, 0, 3]), np.array([5, 1, 7, 8, 2])
    path = tmp_path / "a.ibin"
    path.write_bytes(struct.pack(">ii", 3, 5) + counts.astype(">i4").tobytes() + ids.astype(">i4").tobytes())
    with pytest.raises(pv.Corrupt, match="big-endian"):
        pv.open(path, format="range")
    with pytest.warns(pv.FormatWarning, match="big-endian"), pv.open(path, format="range", lenient=True) as found:
        assert found["ids"].to_numpy().tolist() == ids.tolist()
        assert found["counts"].to_numpy().tolist() == counts.tolist()


def damaged(data: bytes, place: int) -> list[bytes]:
    """The file with each bit of a count flipped."""
    out = []
    for bit in range(32):
        bad = bytearray(data)
        bad[place + bit // 8] ^= 1 << bit % 8
        out.append(bytes(bad))
    return out


@pytest.mark.parametrize("kind", ["fbin", "u8bin", "f16bin", "dbin"])
def test_no_flipped_bit_of_the_dimension_gives_another_shape(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    for bad in damaged(bins(kind), 4):
        path.write_bytes(bad)
        for lenient in (False, True):
            with pytest.raises(pv.FormatError):
                read(path, lenient=lenient)


@pytest.mark.parametrize("suffix", ["fvecs", "npy", "truth"])
def test_no_flipped_dimension_of_other_formats_gives_another_shape(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "truth":
        path.write_bytes(struct.pack("<II", 40, 12) + np.argsort(ROWS, axis=1).astype("<i4").tobytes())
        files = [f for f in damaged(path.read_bytes(), 4) if struct.unpack("<I", f[4:8])[0] != 6]
    elif suffix == "npy":
        np.save(path, ROWS)
        data = path.read_bytes()
        files = [data.replace(b"(40, 12)", b"(40, %2d)" % d) for d in (2, 13, 14, 16, 28, 44, 76)]
    else:
        pv.write(path, ROWS)
        files = damaged(path.read_bytes(), 0)
    for bad in files:
        path.write_bytes(bad)
        with pytest.raises(pv.FormatError):
            read(path, lenient=True)


def test_a_flipped_bit_of_the_row_count_keeps_the_dimension(tmp_path: Path) -> None:
    path = tmp_path / "a.fbin"
    for bad in damaged(bins("fbin"), 0):
        path.write_bytes(bad)
        try:
            found = read(path, lenient=True)
        except pv.FormatError:
            continue
        assert found.shape[1] == 12 and np.array_equal(found, rows_of("fbin")[: len(found)])


@pytest.mark.parametrize("suffix", ["fbin", "npy", "fvecs", "truth"])
def test_a_missing_tail_costs_rows_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    rows = ROWS
    if suffix == "truth":
        rows = np.argsort(ROWS, axis=1).astype(np.int32)
        path.write_bytes(struct.pack("<II", 40, 12) + rows.tobytes())
    else:
        pv.write(path, ROWS)
    data = path.read_bytes()
    refused = 0
    for size in range(len(data) - 40 * 48 + 60, len(data), 37):
        path.write_bytes(data[:size])
        try:
            found = read(path, lenient=True)
        except pv.Corrupt:
            refused += 1  # exactly as long as rows of another width
            continue
        assert 0 < len(found) < 40 and np.array_equal(found, rows[: len(found)])
    assert refused <= 1
    path.write_bytes(data[:40] if suffix == "fvecs" else data[: len(data) - 40 * 48 + 20])
    with pytest.raises(pv.Truncated):
        read(path, lenient=True)


def test_a_wide_header_without_its_end_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.fbin"
    path.write_bytes(bins("fbin", wide=True)[:-50])
    with pytest.raises(pv.Truncated, match="40 rows of 12"):
        pv.open(path)
    assert np.array_equal(read(path, lenient=True), rows_of("fbin")[:38])


def test_lenient_takes_no_dimension_that_leaves_no_words(tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(40)]
    path = tmp_path / "a.bin"
    pv.write(path, ROWS, vocab=words, format="word2vec")
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    assert np.array_equal(read(path, format="word2vec", lenient=True), ROWS[:39])
    for dim in (b"13", b"16", b"92"):
        path.write_bytes(data.replace(b"40 12\n", b"40 " + dim + b"\n"))
        with pytest.raises(pv.FormatError):
            read(path, format="word2vec", lenient=True)
