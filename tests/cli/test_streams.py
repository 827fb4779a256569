"""Terminals and pipes as they are: other encodings, closed streams, readers that go away, full disks, the unexpected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run
from polyvec.cli.streams import PLAIN

PROGRAM = [sys.executable, "-m", "polyvec"]
ASCII = {"PYTHONIOENCODING": "ascii"}
LATIN = {"PYTHONIOENCODING": "latin-1"}
PLAIN_C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def shell(line, **environment):
    """A shell's command line, ``polyvec`` in it being ours; pipes fail where any part fails."""
    line = line.replace("polyvec", " ".join(PROGRAM), 1)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, env={**os.environ, **environment}
    )
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr, done.stderr.decode()
    return done


@pytest.fixture
def words(folder):
    table = np.eye(4, dtype=np.float32)
    pv.write("words.txt", table, vocab=["日本", "Zürich", "…", "plain"])
    pv.write("records.npy", table, records=[{"name": "日本"}] * 4)
    return folder


@pytest.mark.parametrize("environment", [ASCII, LATIN, PLAIN_C], ids=["ascii", "latin-1", "C"])
@pytest.mark.parametrize(
    "line",
    [
        "similar words.txt 日本",
        "similar words.txt plain -k 9",
        "info words.txt",
        "search words.txt --row 0",
        "search records.npy --row 0",
        "formats",
        "formats --matrix",
        "demo --help",
        "convert --help",
        "--help",
        "info --help",
        "search words.txt --word 日本",
        "stats vectors.fbin",
        "words accuracy words.fifu questions.txt",
        "similar words.txt missing日本",
        "info 日本.fbin",
        "bogus日本",
        "--bogus日本",
    ],
)
def test_a_terminal_of_another_encoding_gets_text_and_no_traceback(words, line, environment):
    done = shell(f"polyvec {line}", **environment)
    assert done.returncode in (0, 1, 2)
    (done.stdout + done.stderr).decode("ascii" if environment is not LATIN else "latin-1")


def test_what_an_encoding_has_not_is_spelt_out(words):
    assert rb"\u65e5\u672c" in shell("polyvec similar words.txt plain -k 4", **ASCII).stdout
    assert "Zürich".encode("latin-1") in shell("polyvec similar words.txt plain -k 4", **LATIN).stdout
    assert rb"\u2026" not in shell("polyvec similar words.txt plain -k 4", **ASCII).stdout  # our own symbols: ...
    assert all(spelt.isascii() for spelt in PLAIN.values())


@pytest.mark.parametrize("environment", [ASCII, LATIN, PLAIN_C, {}], ids=["ascii", "latin-1", "C", "utf-8"])
def test_json_is_json_in_every_encoding(words, environment):
    done = shell("echo 日本 | polyvec similar words.txt -k 3 --json", **environment)
    found = json.loads(done.stdout.decode("latin-1" if environment is LATIN else "utf-8"))
    assert found[0]["query"] == "日本" and {hit["word"] for hit in found[0]["hits"]} == {"Zürich", "…", "plain"}


def test_a_name_that_is_no_text_is_shown_with_escapes(folder):
    (folder / "vectors.fbin").rename(folder / os.fsdecode(b"v\xff.fbin"))
    done = shell("polyvec info v*.fbin")
    assert done.returncode == 0 and rb"v\udcff.fbin" in done.stdout
    [found] = json.loads(shell("polyvec info v*.fbin --json").stdout)
    assert found["path"] == "v\udcff.fbin"


@pytest.mark.parametrize(
    "line",
    [
        "info vectors.fbin | head -1",
        "info vectors.fbin --layout --json | true",
        "--help | true",
        "--version | true",
        "formats | true",
        "convert --help | true",
        "search vectors.fbin --queries queries.fbin -k 300 | head -1",
        "search vectors.fbin --queries queries.fbin -k 300 --json | true",
        "convert vectors.fbin - --to npy | head -c 10",
        "convert vectors.fbin - --to npy | true",
        "verify vectors.fbin | true",
        "bogus 2>&1 | true",
        "info none 2>&1 | true",
    ],
)
def test_a_reader_that_goes_away_is_no_error(folder, line):
    done = shell(f"polyvec {line}")
    assert done.stderr == b"" or line.startswith("convert vectors.fbin -"), done.stderr
    assert done.returncode == {"bogus 2>&1 | true": 2, "info none 2>&1 | true": 1}.get(line, 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("line", ["info vectors.fbin", "--help", "formats --json", "convert vectors.fbin - --to npy"])
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_1(folder, line):
    done = shell(f"polyvec {line} > /dev/full")
    assert done.returncode == 1 and b"no space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_closed_streams_take_no_file_of_ours(folder):
    before = (folder / "vectors.fbin").read_bytes()
    done = shell("polyvec info vectors.fbin >&-")
    assert done.returncode == 1 and done.stderr == b"polyvec: standard output: bad file descriptor\n"
    assert shell("polyvec info none.fbin 2>&-").returncode == 1
    assert shell("polyvec convert vectors.fbin o.npy <&- 2>&-").returncode == 0
    assert np.load("o.npy").shape == (300, 16)
    assert shell("polyvec convert vectors.fbin p.npy >&- 2>&-").returncode == 1  # the receipt could not be told
    assert np.load("p.npy").shape == (300, 16)  # and did not go into the file
    done = shell("polyvec convert - q.npy --from fbin <&-")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and not (folder / "q.npy").exists()
    assert shell("polyvec similar words.fifu <&-").returncode == 2
    assert shell("polyvec convert vectors.fbin - --to npy >&-").returncode == 1
    assert (folder / "vectors.fbin").read_bytes() == before


@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"),
        RecursionError("too deep"),
        MemoryError(),
        ZeroDivisionError(),
        RuntimeError("line one\nline two"),
        AssertionError(),
    ],
    ids=repr,
)
def test_the_unexpected_is_one_line_that_says_how_to_see_more(folder, capfd, monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("polyvec.verbs.describe.describe", broken)
    assert run(["info", "vectors.fbin"]) == 1
    err = capfd.readouterr().err
    assert len(err.splitlines()) == 1 and err.startswith("polyvec: ") and "Traceback" not in err
    assert "not enough memory" in err if isinstance(error, MemoryError) else "POLYVEC_DEBUG=1" in err
    monkeypatch.setenv("POLYVEC_DEBUG", "1")
    assert run(["info", "vectors.fbin"]) == 1
    err = capfd.readouterr().err
    assert "Traceback" in err and "in broken" in err and err.splitlines()[-1].startswith("polyvec: ")
