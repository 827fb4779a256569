"""Detection: which format a file is, and that no file at all is more than a FormatError."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import formats
from polyvec.core.errors import MissingExtra
from polyvec.core.format import Confidence, Match
from polyvec.testing import MemorySource, vectors
from polyvec.testing.limits import bounded

SUFFIXES = sorted({suffix for made in formats.all_formats() for suffix in made.suffixes} | {"", ".bin", ".txt"})


def test_formats_are_found_by_name_alias_and_suffix() -> None:
    assert formats.find_format("bins")[0].name == "bins"
    for name in ("fbin", ".fbin", "FBIN"):
        found, variant = formats.find_format(name)
        assert (found.name, variant) == ("bins", "fbin")
    with pytest.raises(pv.InputError, match=r"unknown format 'docx'; there are .*bins"):
        formats.find_format("docx")


def test_names_are_unique_and_every_format_says_what_it_is() -> None:
    every = formats.all_formats()
    assert len({made.name for made in every}) == len(every)
    for made in every:
        assert made.title and made.suffixes and all(suffix.startswith(".") for suffix in made.suffixes)


def test_a_forced_format_is_taken_though_the_bytes_look_otherwise(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(4, 3))
    with pv.open(tmp_path / "a.fbin", format="ibin") as found:
        assert found.vectors.dtype == np.int32 and "asked for as ibin" in found.reason
    with pytest.raises(pv.FormatError, match="not an npy file"):
        pv.open(tmp_path / "a.fbin", format="npy")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_every_kind_are_opened(kind: type, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", vectors(3, 4))
    data = kind((tmp_path / "a.npy").read_bytes())
    with pv.open(data) as collection:
        assert collection.vectors[:].tolist() == vectors(3, 4).tolist()
    assert pv.verify(data).ok and pv.describe(data).rows == 3


def late(peek: object) -> Iterator[Match]:
    yield Match(Confidence.FITS, "this far")
    raise ZeroDivisionError


def short(peek: object) -> list[Match]:
    raise pv.Truncated("the file ends inside its data")


@pytest.mark.parametrize("sniff", [late, short, lambda peek: None])
def test_a_stranger_that_fails_at_looking_closes_no_other_file(sniff: Callable[[object], Any], tmp_path: Path) -> None:
    stranger = type("Stranger", (type(formats.find_format("npy")[0]),), {"name": "stranger", "suffixes": (".odd",)})()
    stranger.sniff = sniff
    pv.write(tmp_path / "a.fbin", vectors(3, 4))
    with formats.registered(stranger), pytest.warns(pv.FormatWarning, match="stranger is left out: it cannot look at"):
        assert pv.describe(tmp_path / "a.fbin").format == "bins"


def test_an_option_that_the_format_has_not_is_refused(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", vectors(4, 3))
    with pytest.raises(pv.InputError, match="bins has no option lossy_words"):
        pv.open(tmp_path / "a.fbin", lossy_words=True)


@pytest.mark.filterwarnings("ignore")
def test_noise_under_any_suffix_is_a_format_error_or_consistent() -> None:
    generator = np.random.default_rng(3)
    noises = [generator.bytes(int(size)) for size in generator.integers(1, 200, 12)]
    noises += [bytes(64), b"\xff" * 64, b"{}", b"[[[[", b"1 2\na 0.5 0.25\n", b"a 1 2\nb 3\n", b"\n" * 40]
    # small counts in front: what gets past the first checks
    for head in ([1, 1], [2, 3], [0, 4], [4, 0], [2**32 - 1, 1], [1, 2**31], [2, 0, 3, 0], [0, 0, 0, 0, 0, 0]):
        noises.append(np.array(head, "<u4").tobytes() + generator.bytes(24))
    for suffix in SUFFIXES:  # once without limits, for what is imported on first use
        examine(MemorySource(noises[0], f"noise{suffix}"))
    with bounded() as clock:
        for suffix in SUFFIXES:
            for noise in noises:
                clock.restart()
                examine(MemorySource(noise, f"noise{suffix}"))


def examine(source: MemorySource) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for verb in (pv.describe, pv.verify):
            try:
                verb(source)
            except pv.FormatError as error:
                assert "\n" not in str(error)
            except MissingExtra:
                pass


@pytest.mark.parametrize(("suffix", "name"), [(".arrow", "arrow"), (".arrows", "arrows"), (".fvecs", "fvecs")])
def test_a_hint_names_what_can_be_asked_for(tmp_path: Path, suffix: str, name: str) -> None:
    if suffix != ".fvecs":
        pytest.importorskip("pyarrow")
    pv.write(tmp_path / f"a{suffix}", vectors(20, 16))
    with pytest.raises(pv.FormatError, match=rf"try --from {name}$"):
        pv.open(tmp_path / f"a{suffix}", format="fbin")
    with pv.open(tmp_path / f"a{suffix}", format=name) as found:
        assert found.rows == 20
