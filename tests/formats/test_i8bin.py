"""The browser's headerless .i8bin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.codecs.levels import quantize_rows
from polyvec.core.collection import Collection
from polyvec.formats import detect
from polyvec.formats.i8bin import FORMAT
from polyvec.testing import FormatSuite, MemorySource, Sample, vectors


def unit(rows: int, dim: int = 512, *, seed: int = 0) -> np.ndarray:
    x = vectors(rows, dim, seed=seed)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class TestI8bin(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        level = 0.6 / 127
        yield Sample("one row", Collection.from_arrays(unit(1)), tolerance=level)
        yield Sample("another dimension", Collection.from_arrays(unit(5, 48)), tolerance=level)
        yield Sample("codes as they are", _reopened(unit(5, 32, seed=4)))
        long = Collection.from_arrays(3 * unit(2, 16))
        yield Sample("normalised", long, options={"normalize": True}, tolerance=level, expected=_reopened(unit(2, 16)))
        words = Collection.from_arrays(unit(2, 16), vocab=["a", "b"], records=[{"n": 1}, {"n": 2}])
        yield Sample("with all that goes into sidecars", words, tolerance=level)


def _reopened(rows: np.ndarray) -> Collection:
    """Rows that are levels already: what an i8bin file gives."""
    source = MemorySource(quantize_rows(rows).codes.tobytes(), "x.i8bin")
    return FORMAT.open(source, dim=rows.shape[1])


def test_a_headerless_file_and_one_with_a_header_are_told_apart(tmp_path: Path):
    pv.write(tmp_path / "a.i8bin", unit(4))
    pv.write(tmp_path / "b.i8bin", np.ones((4, 512), np.int8))
    with pv.open(tmp_path / "a.i8bin") as a, pv.open(tmp_path / "b.i8bin") as b:
        assert (a.format, a.rows, a.dim, a.vectors.dtype) == ("i8bin", 4, 512, np.float32)
        assert (b.format, b.rows, b.dim, b.vectors.dtype) == ("bins", 4, 512, np.int8)


def test_a_header_that_fits_wins_even_where_the_size_is_a_multiple_of_512():
    data = (63).to_bytes(4, "little") + (8).to_bytes(4, "little") + bytes(504)
    assert detect(MemorySource(data, "x.i8bin")).format.name == "bins"


def test_a_cut_file_with_a_header_is_still_told_as_one():
    data = (1000).to_bytes(4, "little") + (96).to_bytes(4, "little") + bytes(5000)
    with pytest.raises(pv.Truncated, match="header promises 1000 rows of 96"):
        pv.open(MemorySource(data, "x.i8bin"))


def test_decoding_divides_by_127(tmp_path: Path):
    pv.write(tmp_path / "a.i8bin", unit(3))
    codes = np.frombuffer((tmp_path / "a.i8bin").read_bytes(), np.int8).reshape(3, 512)
    with pv.open(tmp_path / "a.i8bin") as c:
        np.testing.assert_array_equal(c.vectors[:], codes.astype(np.float32) / np.float32(127))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (np.zeros(512), "row 1 is not of length one: its L2 norm is 0; remove it"),
        (np.full(512, np.nan), "row 1 is not of length one: its L2 norm is NaN"),
        (np.full(512, 0.1), "row 1 is not of length one: its L2 norm is 2.26"),
        (np.full(512, 512**-0.5), r"L2 norm out of expected range: 1\.06\d+\. .* Row 1\."),
    ],
    ids=["zero", "NaN", "long", "constant"],
)
def test_a_row_that_breaks_the_rules_stops_the_write_with_its_index_and_norm(tmp_path: Path, row, words):
    rows = unit(3)
    rows[1] = row
    with pytest.raises(pv.InputError, match=words):
        pv.write(tmp_path / "a.i8bin", rows)
    assert not list(tmp_path.iterdir())


def test_truncation_is_only_written_when_asked_and_never_passes_verification(tmp_path: Path):
    receipt = pv.write(tmp_path / "old.i8bin", unit(30), rounding="truncate")
    assert "not conforming" in receipt.codec
    report = pv.verify(tmp_path / "old.i8bin")
    assert not report.ok
    listed = [f.message for f in report.findings if f.severity == "error"]
    assert (
        len(listed) == 21
        and listed[0].startswith("L2 norm out of expected range: 0.9")
        and "30 rows in all" in listed[-1]
    )


def test_verify_finds_minus_128_with_its_index(tmp_path: Path):
    path = tmp_path / "a.i8bin"
    pv.write(path, unit(4))
    data = bytearray(path.read_bytes())
    data[1066] = 0x80
    path.write_bytes(data)
    finding = next(f for f in pv.verify(path).findings if f.severity == "error")
    assert finding.message == "Invalid int8 value at index 1066: -128. Values must be in range [-127, 127]."
    assert finding.offset == 1066


def test_codes_pass_through_cvc_unchanged(tmp_path: Path):
    pytest.importorskip("polyvec.formats.cvc")
    pv.write(tmp_path / "a.i8bin", unit(9))
    pv.convert(tmp_path / "a.i8bin", tmp_path / "b.cvc", encoding="int8")
    pv.convert(tmp_path / "b.cvc", tmp_path / "c.i8bin")
    assert (tmp_path / "c.i8bin").read_bytes() == (tmp_path / "a.i8bin").read_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [5, 512]}, "Embedding file size mismatch: expected 2560 bytes (5 cards × 512 dims), got 2048 bytes"),
        ({"shape": [2, 512]}, "old float16 format"),
        ({"shape": [4, 1 << 40]}, "shape"),
        ({"shape": [-4, -512]}, "shape"),
        ({"shape": "4x512"}, "shape"),
        ({"records": [{}] * 3}, "Metadata count mismatch: expected 4 records, got 3"),
        ({"quantization": {"dtype": "float16"}}, "Unsupported quantization dtype: float16"),
        ({"quantization": {"dtype": "int8", "scale_factor": 128}}, "scale_factor: 128"),
    ],
)
def test_a_description_that_does_not_fit_is_told(tmp_path: Path, change, words):
    path = tmp_path / "embeddings.i8bin"
    pv.write(path, unit(4))
    good = {
        "version": "1.0",
        "quantization": {"dtype": "int8", "scale_factor": 127},
        "shape": [4, 512],
        "records": [{}] * 4,
    }
    (tmp_path / "meta.json").write_text(json.dumps(good | change))
    report = pv.verify(path)
    assert not report.ok and any(words in f.message for f in report.findings)


def test_a_foreign_meta_json_beside_another_name_is_left_alone(tmp_path: Path):
    pv.write(tmp_path / "mine.i8bin", unit(4))
    (tmp_path / "meta.json").write_text('{"quantization": {}, "shape": [9, 512], "records": []}')
    with pv.open(tmp_path / "mine.i8bin") as c:
        assert (c.rows, c.records) == (4, None)
    (tmp_path / "meta.json").write_text("[1, 2]")
    with pv.open(tmp_path / "mine.i8bin") as c:
        assert c.rows == 4


def test_the_dimension_can_be_said(tmp_path: Path):
    pv.write(tmp_path / "a.i8bin", unit(6, 64))
    (tmp_path / "a.i8bin.shape.json").unlink()
    with pytest.raises(pv.AmbiguousFormat, match=r"64 fit, whose rows are of unit length.*--dim 64"):
        pv.open(tmp_path / "a.i8bin")
    with pv.open(tmp_path / "a.i8bin", dim=64) as c:
        assert (c.rows, c.dim) == (6, 64)
    with pytest.raises(pv.InputError):
        pv.open(tmp_path / "a.i8bin", dim=0)


def test_the_commands_take_it_like_any_other_format(tmp_path: Path, capsys):
    from polyvec.cli import run

    pv.write(tmp_path / "a.fbin", unit(7))
    source, target = str(tmp_path / "a.fbin"), str(tmp_path / "a.i8bin")
    assert run(["convert", source, target]) == 0
    assert "int8 (norm rounding)" in capsys.readouterr().out
    assert run(["info", target, "--layout"]) == 0
    told = capsys.readouterr().out
    assert "i8bin" in told and "7 x 512" in told and "value = code / 127" in told
    assert run(["verify", target]) == 0
    assert run(["convert", target, str(tmp_path / "b.npy")]) == 0
    np.testing.assert_array_equal(
        np.load(tmp_path / "b.npy"), np.fromfile(target, np.int8).reshape(7, 512).astype(np.float32) / np.float32(127)
    )
    Path(target).write_bytes(Path(target).read_bytes()[:-1])
    assert run(["verify", target]) == 1
    pv.write(tmp_path / "long.fbin", 2 * unit(3))
    assert run(["convert", str(tmp_path / "long.fbin"), str(tmp_path / "c.i8bin")]) == 2
    said = capsys.readouterr().err
    assert "--option normalize=true" in said and "--normalize" not in said
    assert run(["convert", str(tmp_path / "long.fbin"), str(tmp_path / "c.i8bin"), "-o", "normalize=true"]) == 0


def without_sidecar(path: Path, rows: np.ndarray, **options) -> Path:
    pv.write(path, rows, **options)
    path.with_name(path.name + ".shape.json").unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("dim", [128, 256, 384, 768, 1024])
def test_a_dimension_that_nothing_tells_is_asked_for_and_never_taken_as_512(tmp_path: Path, capsys, dim: int):
    """Sixteen rows: every one of these sizes is a multiple of 512 bytes, which was all that was looked at."""
    from polyvec.cli import run

    path = without_sidecar(tmp_path / "a.i8bin", unit(16, dim))
    assert path.stat().st_size % 512 == 0
    for read in (pv.open, pv.describe, lambda p: pv.open(p, lenient=True)):
        with pytest.raises(pv.AmbiguousFormat, match=f"{dim} fit, whose rows are of unit length.*--dim {dim}"):
            read(path)
    assert not pv.verify(path).ok and pv.verify(path, dim=dim).ok
    with pv.open(path, dim=dim) as c:
        assert (c.rows, c.dim, c.notes) == (16, dim, [])
    assert run(["convert", str(path), str(tmp_path / "b.npy")]) == 1
    assert f"--dim {dim}" in capsys.readouterr().err and not (tmp_path / "b.npy").exists()
    for said in (["--dim", str(dim)], ["--option", f"dim={dim}"]):
        assert run(["info", str(path), *said]) == 0 and f"16 x {dim:,}" in capsys.readouterr().out
        assert run(["verify", str(path), *said]) == 0
        assert run(["convert", str(path), str(tmp_path / "b.npy"), "-f", *said]) == 0
        assert np.load(tmp_path / "b.npy").shape == (16, dim)


def test_512_is_taken_where_the_rows_agree_and_verify_says_why(tmp_path: Path):
    path = without_sidecar(tmp_path / "a.i8bin", unit(16))
    with pv.open(path) as c:
        assert (c.rows, c.dim) == (16, 512)
    report = pv.verify(path)
    assert report.ok and any("rows' lengths agree" in finding.message for finding in report.findings)
    pv.write(tmp_path / "b.i8bin", unit(16, 256))
    assert not any("rows' lengths" in finding.message for finding in pv.verify(tmp_path / "b.i8bin").findings)


def test_a_wrong_dimension_that_was_said_is_told(tmp_path: Path):
    path = without_sidecar(tmp_path / "a.i8bin", unit(16))
    with pytest.warns(pv.FormatWarning, match="rows of 256 values, as was said, are not of unit length"):
        pv.open(path, dim=256).close()


def test_rows_of_other_lengths_are_asked_for_by_size(tmp_path: Path):
    (tmp_path / "a.i8bin").write_bytes(b"\1" * 16 * 384)
    with pytest.raises(pv.AmbiguousFormat, match=r"128, 192, 256, 384, 512, 768.* fit, by the size alone.*--dim 512"):
        pv.open(tmp_path / "a.i8bin")
    with pytest.raises(pv.InputError, match="bins has no option dim to be read by"):
        pv.write(tmp_path / "a.fbin", unit(2)) and pv.open(tmp_path / "a.fbin", dim=3)
