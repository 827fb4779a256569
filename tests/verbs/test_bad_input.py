"""Bad input: each gives one clear line, leaves the target untouched and no temporary file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.testing.atomicity import contents

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(50))
GOOD = struct.pack("<II6f", 2, 3, *range(6))
FVECS = b"".join(struct.pack("<i3f", 3, row, 0.5, -1) for row in range(4))


def refuse(folder: Path, kind: type[Exception], words: str, work: Callable[[], object]) -> None:
    """``work`` raises ``kind`` in one line with ``words``; the folder stays as it was."""
    (folder / "target.fbin").write_bytes(b"the old file")
    before = contents(folder)
    with pytest.raises(kind, match=words) as caught:
        work()
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("name", "data", "kind", "words"),
    [
        ("a.fbin", b"", pv.UnknownFormat, r"empty.*0 bytes"),
        ("a.fbin", bytes(7), pv.Truncated, r"too short for a header.*at byte 0.*expected 8 bytes, found 7 bytes"),
        ("a.npy", bytes(7), pv.Truncated, r"expected 8 bytes, found 7 bytes"),
        ("a.png", PNG, pv.UnknownFormat, r"89 50 4e 47.*a PNG image"),
        ("a.fbin", PNG, pv.Truncated, "the bytes look like a PNG image"),
        ("a.fbin", FVECS, pv.FormatError, r"fvecs.*--from"),
        ("a.npy", PNG, pv.Corrupt, "not an npy file.*PNG"),
        ("a.npy", GOOD, pv.Corrupt, "not an npy file"),
        ("a.fbin", GOOD[:-1], pv.Truncated, r"expected 32 bytes, found 31 bytes.*--lenient"),
        ("a.fbin", struct.pack("<II", 2**32 - 1, 2**32 - 1) + bytes(8), pv.Truncated, "4294967295 rows of 4294967295"),
        ("a.fbin", struct.pack("<QQ", 2**40 + 7, 2**40 + 9) + bytes(8), pv.Truncated, "expected 7176 bytes"),
        ("a.fbin", struct.pack("<II", 2**32 - 1, 1) + bytes(8), pv.Truncated, "expected 17179869188 bytes"),
        ("a.fbin", struct.pack("<II", 5, 0), pv.Corrupt, "rows of dimension 0.*field d at byte 4"),
        ("a.dat", b"nothing that anyone knows", pv.UnknownFormat, "no format recognises"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, name: str, data: bytes, kind: type, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    refuse(tmp_path, kind, words, lambda: pv.convert(path, tmp_path / "target.fbin"))
    with pytest.raises(kind, match=words):
        pv.open(path)
    report = pv.verify(path)
    assert not report.ok and str(path) in report.findings[0].message


def test_a_directory_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "folder.fbin").mkdir()
    refuse(
        tmp_path, pv.FormatError, "directory", lambda: pv.convert(tmp_path / "folder.fbin", tmp_path / "target.fbin")
    )
    refuse(
        tmp_path, FileNotFoundError, "none.fbin", lambda: pv.convert(tmp_path / "none.fbin", tmp_path / "target.fbin")
    )
    refuse(tmp_path, pv.InputError, "no file matches", lambda: pv.convert(tmp_path / "n*.x", tmp_path / "target.fbin"))
    with pytest.raises(FileNotFoundError):
        pv.verify(tmp_path / "none.fbin")


def test_a_wrong_suffix_is_told_with_what_fits(tmp_path: Path) -> None:
    (tmp_path / "a.dbin").write_bytes(GOOD)
    refuse(
        tmp_path,
        pv.Truncated,
        "expected 56 bytes, found 32",
        lambda: pv.convert(tmp_path / "a.dbin", tmp_path / "target.fbin"),
    )
    np.save(tmp_path / "b.npy", vectors(2, 3))
    (tmp_path / "b.npy").rename(tmp_path / "b.fbin")
    with pv.open(tmp_path / "b.fbin") as found:  # a magic outweighs a name
        assert found.format == "npy"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**62])
def test_ids_beyond_int32_never_wrap(tmp_path: Path, value: int) -> None:
    ids = np.array([[1, 2], [3, value]], np.int64)
    words = rf"{value} at \(1, 1\) does not fit int32"
    refuse(tmp_path, pv.InputError, words, lambda: pv.write(tmp_path / "target.fbin", ids, format="ibin"))
    refuse(tmp_path, pv.InputError, words, lambda: pv.write(tmp_path / "new.ibin", ids))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stride": 0}, "stride must be at least 1, not 0"),
        ({"stride": -1}, "stride must be at least 1"),
        ({"stride": 2, "limit": -1}, "limit must be at least 0"),
        ({"head": -1}, "head must be at least 0"),
        ({"random": -5}, "random must be at least 0"),
        ({"random": 3}, "cannot choose 3 rows of 2"),
        ({"range": (-1, 1)}, "range must be"),
        ({"range": (2, 1)}, "range must be"),
        ({}, "choose one of"),
        ({"head": 1, "stride": 1}, "not head and stride"),
        ({"head": 1, "chunk_rows": 0}, "chunk size must be at least 1 row, not 0"),
        ({"head": 1, "chunk_rows": -4}, "chunk size must be at least 1 row"),
        ({"head": 1, "encoding": "int4"}, "unknown encoding 'int4'"),
        ({"head": 1, "encoding": "int8"}, "hold no int8 encoding"),
        ({"head": 1, "format": "xyz"}, "unknown format 'xyz'; there are arrow, bins"),
        ({"head": 1, "level": 9}, "no format has an option 'level'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(tmp_path: Path, options: dict, words: str) -> None:
    (tmp_path / "a.fbin").write_bytes(GOOD)
    refuse(tmp_path, pv.InputError, words, lambda: pv.sample(tmp_path / "a.fbin", tmp_path / "target.fbin", **options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": 0}, "rows must be at least 1, not 0"),
        ({"rows": -1}, "rows must be at least 1"),
        ({"parts": 0}, "parts must be at least 1"),
        ({"parts": 3}, "2 rows cannot be split into 3 parts"),
        ({}, "either rows or parts"),
        ({"rows": 1, "parts": 1}, "either rows or parts"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(tmp_path: Path, options: dict, words: str) -> None:
    (tmp_path / "a.fbin").write_bytes(GOOD)
    refuse(tmp_path, pv.InputError, words, lambda: pv.split(tmp_path / "a.fbin", tmp_path / "b.fbin", **options))


def test_an_unknown_output_format_names_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.fbin").write_bytes(GOOD)
    for name in ("out.xyz", "out"):
        refuse(
            tmp_path,
            pv.InputError,
            r"no format is written for the suffix.*\.fbin.*--to",
            lambda name=name: pv.convert(tmp_path / "a.fbin", tmp_path / name),
        )


def test_an_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.fbin").write_bytes(GOOD)
    (tmp_path / "b.fbin").write_bytes(GOOD)
    (tmp_path / "link.fbin").symlink_to("a.fbin")
    for target in ("a.fbin", "link.fbin", "../" + tmp_path.name + "/a.fbin"):
        refuse(
            tmp_path,
            pv.InputError,
            "also an input",
            lambda target=target: pv.convert(tmp_path / "a.fbin", tmp_path / target),
        )
    refuse(
        tmp_path,
        pv.InputError,
        "also an input",
        lambda: pv.merge([tmp_path / "a.fbin", tmp_path / "b.fbin"], tmp_path / "b.fbin"),
    )
    refuse(
        tmp_path, pv.InputError, "also an input", lambda: pv.sample(tmp_path / "a.fbin", tmp_path / "a.fbin", head=1)
    )


def test_a_target_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.fbin").write_bytes(GOOD)
    (tmp_path / "dir.npy").mkdir()
    for target, options, words in [
        ("dir.npy", {}, "directory"),
        ("no/b.npy", {}, "does not exist"),
        ("target.fbin", {"overwrite": False}, "--force"),
    ]:
        refuse(
            tmp_path,
            pv.InputError,
            words,
            lambda t=target, o=options: pv.convert(tmp_path / "a.fbin", tmp_path / t, **o),
        )


def test_rows_that_vanish_while_they_are_copied_leave_the_target(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(100, 4))
    pv.write(tmp_path / "out.npy", vectors(1, 1))

    def shrink(current: int, total: int) -> None:
        with (tmp_path / "a.fbin").open("r+b") as file:
            file.truncate(40)

    before = (tmp_path / "out.npy").read_bytes()
    for suffix in (".npy", ".f16bin"):
        pv.write(tmp_path / "a.fbin", vectors(100, 4))
        with pytest.raises(pv.Truncated):
            pv.convert(tmp_path / "a.fbin", tmp_path / f"out{suffix}", chunk_rows=10, progress=shrink)
    assert (tmp_path / "out.npy").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.fbin", "out.npy"]
