"""VMAT: polyvec's suite for every format, files of another program, and what only this format does."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from polyvec_vmat import FOOTER, FORMAT, GUARDED, MAGIC

import polyvec as pv
from polyvec.testing import FormatSuite, Sample, vectors

GOLDEN = Path(__file__).parent / "golden"
VALUES = np.array([[0.5, -1.25, 3.0], [1e-3, 65504.0, -0.0]])


class TestVmat(FormatSuite):
    """Round trips, every truncation, every bit flip, hostile counts, kills, recognition: all inherited."""

    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        notes = {"model": "m", "tags": ["a", "ü"], "nested": {"n": 1}}
        yield Sample("floats", pv.Collection.from_arrays(vectors(5, 3), metadata=notes))
        yield Sample("halves", pv.Collection.from_arrays(vectors(4, 2, np.float16)))
        floats = vectors(4, 2)
        halves = pv.Collection.from_arrays(floats.astype(np.float16))
        yield Sample("asked", pv.Collection.from_arrays(floats), encoding="float16", expected=halves)
        yield Sample("none", pv.Collection.from_arrays(vectors(0, 3)))

    def seal(self, data: bytes) -> bytes:
        """Footers with hostile counts and a right checksum: what an attacker would write."""
        if len(data) < FOOTER.size:
            return data
        at = len(data) - FOOTER.size
        crc = zlib.crc32(data[at : at + GUARDED])
        return data[: at + GUARDED] + crc.to_bytes(4, "little") + data[at + GUARDED + 4 :]


def test_files_of_another_program_read_as_it_meant_them() -> None:
    with pv.open(GOLDEN / "floats.vmat") as c:
        assert (c.format, c.vectors.dtype.name, c.metadata["näme"]) == ("vmat", "float32", [1, 2])
        np.testing.assert_array_equal(c.vectors[:], VALUES.astype(np.float32))
    with pv.open(GOLDEN / "halves.vmat") as c:
        np.testing.assert_array_equal(c.vectors[:], VALUES.astype(np.float16))


def test_what_another_program_would_write_is_what_we_write(tmp_path: Path) -> None:
    with pv.open(GOLDEN / "halves.vmat") as c:
        pv.write(tmp_path / "again.vmat", c)
    assert (tmp_path / "again.vmat").read_bytes() == (GOLDEN / "halves.vmat").read_bytes()


def test_a_file_without_a_footer_is_read_when_its_dimension_is_said() -> None:
    with pytest.raises(pv.FormatError, match=r"no footer.*dim="):
        pv.open(GOLDEN / "bare.vmat")
    with pv.open(GOLDEN / "bare.vmat", dim=3) as c:
        np.testing.assert_array_equal(c.vectors[:], VALUES.astype(np.float32))
    for bad in (0, -3, "three"):
        with pytest.raises(pv.InputError, match="dim"):
            pv.open(GOLDEN / "bare.vmat", options={"dim": bad})
    with pytest.raises(pv.FormatError, match="ends inside row 1"):
        pv.open(GOLDEN / "bare.vmat", dim=5)


def test_the_magic_at_the_end_is_enough(tmp_path: Path) -> None:
    copy = tmp_path / "no_suffix"
    copy.write_bytes((GOLDEN / "floats.vmat").read_bytes())
    assert copy.read_bytes().endswith(MAGIC)
    assert pv.open(copy).format == "vmat"


def test_a_title_goes_among_the_notes(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.vmat", vectors(3, 2), options={"title": "three rows"})
    assert pv.open(tmp_path / "a.vmat").metadata == {"title": "three rows"}


def test_what_is_not_declared_is_refused(tmp_path: Path) -> None:
    for bad in ({"encoding": "int8"}, {"titel": "x"}, {"title": 3}, {"dim": 3}):
        with pytest.raises(pv.InputError):
            pv.write(tmp_path / "a.vmat", vectors(3, 2), **bad)
    with pytest.raises(pv.InputError, match="float64"):
        pv.write(tmp_path / "a.vmat", vectors(3, 2, np.float64))
    assert not list(tmp_path.iterdir())


def test_the_command_line_knows_it_once_the_package_is_installed(tmp_path: Path) -> None:
    def polyvec(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "polyvec", *words], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return done.stdout

    assert "vmat" in [entry["name"] for entry in json.loads(polyvec("formats", "--json"))]
    pv.write(tmp_path / "a.fbin", vectors(9, 4))
    polyvec("convert", "a.fbin", "b.vmat", "--option", "title=nine rows")
    polyvec("convert", "b.vmat", "c.fbin")
    assert (tmp_path / "a.fbin").read_bytes() == (tmp_path / "c.fbin").read_bytes()
    assert json.loads(polyvec("info", "b.vmat", "--json"))[0]["metadata"]["title"] == "nine rows"
    polyvec("verify", "b.vmat")
