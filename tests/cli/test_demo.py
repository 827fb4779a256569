"""polyvec demo: it runs anywhere, tells the truth, ends well, and leaves what it names and nothing else."""

from __future__ import annotations

import os
import re
import shlex
import stat
import tempfile
from pathlib import Path

import pytest

import polyvec as pv
from polyvec.core.errors import MissingExtra
from polyvec.model import bundled


@pytest.fixture
def temporary(folder, monkeypatch):
    """A folder for temporary files of this test alone."""
    place = folder / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def without_model(monkeypatch):
    monkeypatch.setattr(bundled, "find_installed", lambda: None)


def lines_of(out: str) -> dict[tuple[str, str], list[str]]:
    """The table by format and encoding: bytes, size, error, cosine, recall, seconds."""
    found = re.findall(r"^   (\w+) +(\S.*?)  +([\d,]+) +(\d+%) +(\S+) +(\S+) +([\d.]+%) +([\d.]+)$", out, re.M)
    assert len({line[:2] for line in found}) == len(found), "a format and encoding has two lines"
    return {line[:2]: list(line[2:]) for line in found}


def test_the_demo_shows_every_step_and_ends_well(cli, temporary, without_model):
    code, out, err = cli("demo", "--rows", "3000")
    assert code == 0 and not err
    assert "left out" not in out.replace("wordtext: left out", "")  # text, where nothing is compiled
    assert "bundled vectors: the model is not installed" in out and "3,000 summaries" in out
    assert "NOT" not in out and not any("?" in line for line in lines_of(out).values())
    assert re.search(r"was sound; bit 0 of byte [\d,]+ was flipped", out) and re.search(
        r"error: damaged.cvc: rows \d+", out
    )
    assert "1 of 4 shards are missing: 2" in out and "the same bytes as before" in out
    hits = re.findall(r"^   (0\.\d{3})  (\S+) ", out, re.M)
    assert len(hits) == 5 and all(name.startswith("zipfile") for _, name in hits)
    assert [score for score, _ in hits] == sorted((score for score, _ in hits), reverse=True)
    assert out.count(" s]\n") == 6 and re.search(r"Done in [\d.]+ s\.\n$", out)


def test_a_slow_machine_embeds_fewer_and_says_so():
    assert bundled.affordable(3000, 8, 0.001) == 3000  # 1,000 texts a second: all of them
    assert bundled.affordable(3000, 8, 0.01) == 800  # two ARM cores
    assert bundled.affordable(3000, 8, 1.0) == 200 and bundled.affordable(60, 8, 1.0) == 60


def test_the_demo_takes_as_many_texts_as_the_machine_embeds_in_time(cli, temporary, monkeypatch):
    if bundled.find_installed() is None:
        pytest.skip("the model is not installed")
    monkeypatch.setattr(bundled, "_seconds_a_text", lambda *_: 0.1)
    monkeypatch.setattr(bundled, "_FEWEST", 60)
    monkeypatch.setattr("polyvec.cli.demo.EMBED_SECONDS", 1.0)
    code, out, err = cli("demo")
    if "bundled vectors" in out:
        pytest.skip("the model cannot be used here")
    assert code == 0 and not err
    assert "embedding 60 summaries of 3,000, for time (--rows 3000 takes all): about 6 s on this machine" in out
    assert "60 summaries (" in out


def test_the_table_measures_what_is_lost(cli, temporary, without_model):
    table = lines_of(cli("demo", "--rows", "300")[1])
    assert {"fbin", "f16bin", "npy", "npz", "cvc", "safetensors", "weights", "i8bin", "finalfusion"} <= {
        f for f, _ in table
    }
    assert not {"truth", "ranges", "csr", "floret"} & {f for f, _ in table}
    for encoding in ("raw", "lossless"):
        assert table["cvc", encoding][2:5] == ["exact", "1", "100.0%"]
    assert table["fbin", "raw float32"][0] == f"{8 + 300 * 384 * 4:,}"
    assert table["cvc", "int8"][1] == "25%" and table["cvc", "int8"][2] != "exact"
    assert 90 < float(table["cvc", "int8"][4][:-1]) <= 100


def test_the_page_and_the_collection_stay_and_nothing_else(cli, temporary, without_model):
    for _ in range(2):  # the second run replaces the first
        out = cli("demo", "--rows", "60")[1]
        [kept] = temporary.iterdir()
        assert sorted(path.name for path in kept.iterdir()) == ["stdlib.cvc", "stdlib.html"]
    assert not stat.S_IMODE(kept.stat().st_mode) & 0o077
    assert (kept / "stdlib.html").as_uri() in out
    [line] = re.findall(r"^ +(polyvec serve .*)$", out, re.M)
    assert shlex.split(line) == ["polyvec", "serve", str(kept / "stdlib.cvc")]
    with pv.open(kept / "stdlib.cvc") as collection:
        assert collection.rows == 60 and set(collection.records[0]) == {"name", "summary", "module", "kind"}
    assert b"<!doctype html>" in (kept / "stdlib.html").read_bytes()[:200].lower()


def test_a_folder_of_another_kind_is_left_alone(cli, temporary, without_model):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    name = f"polyvec-demo-{os.getuid()}" if hasattr(os, "getuid") else "polyvec-demo"
    (temporary / name).symlink_to(elsewhere)
    code, out, _ = cli("demo", "--rows", "20")
    assert code == 0 and not list(elsewhere.iterdir()) and "polyvec serve" in out


def test_the_folder_can_be_chosen(cli, temporary, without_model):
    assert cli("demo", "--rows", "20", "--output", "mine")[0] == 0
    assert Path("mine/stdlib.html").is_file() and not list(temporary.iterdir())


def test_a_missing_extra_is_one_line_that_says_what_to_install(cli, temporary, without_model, monkeypatch):
    from polyvec import formats

    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("h5py", extra="hdf5", purpose="HDF5 files")

    monkeypatch.setattr(type(formats.find_format("hdf5")[0]), "write", missing)
    code, out, _ = cli("demo", "--rows", "20")
    told = [line for line in out.splitlines() if line.startswith("   hdf5")]
    assert code == 0 and len(told) == 1 and "not here" in told[0] and "polyvec[hdf5]" in told[0]


def test_the_demo_works_without_a_compiler(process, folder):
    done = process("demo", "--rows", "300", "--output", "kept", env={**os.environ, "POLYVEC_NO_NATIVE": "1"})
    assert done.returncode == 0, done.stderr
    assert b"no compiled kernels" in done.stdout and b"the same bytes as before" in done.stdout
    assert (folder / "kept" / "stdlib.html").is_file()
