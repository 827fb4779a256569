"""verify and describe: what they say of good files and of odd ones."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np

import polyvec as pv
from polyvec.testing import vectors


def test_a_good_file_is_ok_and_its_digest_can_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.fbin"
    pv.write(path, vectors(5, 3))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report = pv.verify(path, sha256=True)
    assert report.ok and report.format == "bins" and report.bytes == 68 and report.sha256 == digest
    assert report.findings == () and json.dumps(report.to_dict())
    assert pv.verify(path, sha256=digest.upper()).ok
    wrong = pv.verify(path, sha256="0" * 64)
    assert not wrong.ok and wrong.findings[0].field == "sha256"


def test_extra_bytes_and_nan_are_warnings(tmp_path: Path) -> None:
    rows = vectors(5, 3)
    rows[2, 1] = np.nan
    rows[4, 0] = np.inf
    path = tmp_path / "a.fbin"
    pv.write(path, rows)
    path.write_bytes(path.read_bytes() + b"xyz")
    report = pv.verify(path)
    assert report.ok and [finding.severity for finding in report.findings] == ["warning", "warning"]
    assert "3 extra bytes" in report.findings[0].message and report.findings[0].offset == 71
    assert "2 rows" in report.findings[1].message and "first is row 2" in report.findings[1].message


def test_truncation_is_an_error_with_its_offset(tmp_path: Path) -> None:
    (tmp_path / "a.fbin").write_bytes(struct.pack("<II", 5, 3) + bytes(30))
    report = pv.verify(tmp_path / "a.fbin")
    assert not report.ok and report.findings[0].offset == 38
    (tmp_path / "b.fbin").write_bytes(b"")
    empty = pv.verify(tmp_path / "b.fbin")
    assert not empty.ok and empty.format is None


def test_a_description_says_what_why_and_how_the_values_look(tmp_path: Path) -> None:
    rows = np.array([[3, 4], [0, 0], [np.nan, 1], [6, 8]], np.float32)
    pv.write(tmp_path / "a.fbin", rows, vocab=list("abcd"), records=[{"x": 1}] * 4, ids=[9, 8, 7, 6], metadata={"m": 1})
    found = pv.describe(tmp_path / "a.fbin", layout=True)
    assert (found.format, found.rows, found.dim, found.bytes) == ("bins", 4, 2, 40)
    assert found.reason == "suffix .fbin and size = 8 + 4 x 2 x 4"
    assert (found.vocab, found.records, found.ids, found.metadata) == (4, ["x"], "int64", {"m": 1})
    column = found.columns[0]
    assert (column.dtype, column.encoding, column.decoded_bytes, column.sampled) == ("float32", "raw", 32, 4)
    assert (column.minimum, column.maximum, column.not_finite, column.zero_rows) == (0.0, 8.0, 1, 1)
    assert (column.norm_min, column.norm_max) == (0.0, 10.0)
    assert any("NaN" in warning for warning in found.warnings) and any("all zero" in w for w in found.warnings)
    assert [(s.offset, s.size) for s in found.layout or ()] == [(0, 4), (4, 4), (8, 32)]
    assert json.dumps(found.to_dict())


def test_a_description_reads_little_of_a_large_file(tmp_path: Path) -> None:
    path = tmp_path / "a.fbin"
    with path.open("wb") as file:
        file.write(struct.pack("<II", 1_000_000, 64))
        file.truncate(8 + 1_000_000 * 64 * 4)
    with pv.open_source(path) as source:
        pv.describe(source, sample=False)
        assert source.bytes_read < 20_000
    with pv.open_source(path) as source:
        assert pv.describe(source).rows == 1_000_000
        assert source.bytes_read < 2_000_000


def test_integers_under_a_float_suffix_are_remarked_on(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.ibin", np.arange(12, dtype=np.int32).reshape(4, 3))
    (tmp_path / "a.ibin").rename(tmp_path / "a.fbin")
    assert any("--from ibin" in warning for warning in pv.describe(tmp_path / "a.fbin").warnings)


def test_progress_tells_the_bytes_read(tmp_path: Path) -> None:
    path = tmp_path / "v.fbin"
    pv.write(path, np.ones((1000, 8), np.float32))
    told: list[tuple[int, int]] = []
    assert pv.verify(path, progress=lambda done, of: told.append((done, of))).ok
    size = path.stat().st_size
    assert told[-1] == (size, size) and all(done < size for done, _ in told[:-1])
