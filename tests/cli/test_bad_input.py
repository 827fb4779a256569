"""Bad input on the command line: one clear line, the right exit code, the target untouched, no temporary file left."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def fvecs(rows):
    return b"".join(struct.pack("<i", len(row)) + row.tobytes() for row in rows)


BAD_FILES = {
    "empty.fbin": (b"", "empty"),
    "seven.fbin": (b"1234567", "too short"),
    "image.fbin": (b"\x89PNG\r\n\x1a\n" + bytes(64), "the file is shorter"),
    "image.png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "a PNG image"),
    "short.fbin": (struct.pack("<II", 10, 4) + bytes(100), "expected 168 bytes, found 108 bytes"),
    "promise.fbin": (struct.pack("<II", 2**32 - 1, 128) + bytes(100), "promises 4294967295 rows"),
    "overflow.fbin": (struct.pack("<II", 2**32 - 1, 2**32 - 1) + bytes(100), "the file is shorter"),
    "flat.fbin": (struct.pack("<II", 7, 0), "dimension 0"),
    "rows.fbin": (fvecs(np.ones((20, 16), np.float32)), "vecs"),
    "text.dat": (b"hello world, this is text", "no format recognises"),
}


@pytest.mark.parametrize("name", sorted(BAD_FILES))
@pytest.mark.parametrize("command", ["info", "verify", "convert", "merge", "split", "sample"])
def test_a_bad_file_is_one_clear_line_and_exit_1(cli, folder, command, name):
    content, expected = BAD_FILES[name]
    (folder / name).write_bytes(content)
    (folder / "old.fbin").write_bytes(b"old")
    before = files(folder)
    rest = {
        "convert": ["old.fbin", "-f"],
        "merge": ["-o", "old.fbin", "-f"],
        "split": ["old.fbin", "--parts", "1", "-f"],
        "sample": ["old.fbin", "--head", "1", "-f"],
    }.get(command, [])
    code, out, err = cli(command, name, *rest)
    assert code == 1
    said = out if command == "verify" else err
    assert expected in said and name in said
    assert len(err.strip().splitlines()) == (0 if command == "verify" else 1)
    assert files(folder) == before


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["info", "."], 1, "directory"),
        (["info", "missing.fbin"], 1, "missing.fbin: no such file"),
        (["convert", "missing.fbin", "o.npy"], 1, "no such file"),
        (["convert", "vectors.fbin", "o.xyz"], 2, "no format is written for the suffix .xyz"),
        (["convert", "vectors.fbin", "o.npy", "--to", "bogus"], 2, "unknown format 'bogus'"),
        (["convert", "vectors.fbin", "o.npy", "--encoding", "bogus"], 2, "unknown encoding 'bogus'"),
        (["convert", "vectors.fbin", "vectors.fbin", "-f"], 2, "the output is also an input"),
        (["convert", "vectors.fbin", "queries.fbin"], 2, "use --force"),
        (["convert", "vectors.fbin", "nowhere/o.npy"], 2, "does not exist"),
        (["convert", "vectors.fbin", "o.npy", "--column", "nope"], 2, "no column 'nope'"),
        (["convert", "vectors.fbin", "o.npy", "--option", "speed=9"], 2, "no format has an option 'speed'"),
        (["convert", "vectors.fbin", "o.ibin"], 2, "floats"),
        (["sample", "vectors.fbin", "o.npy", "--stride", "0"], 2, "stride must be at least 1, not 0"),
        (["sample", "vectors.fbin", "o.npy", "--head", "-1"], 2, "head must be at least 0"),
        (["sample", "vectors.fbin", "o.npy", "--random", "301"], 2, "cannot choose 301 rows of 300"),
        (["sample", "vectors.fbin", "o.npy", "--range", "9"], 2, "START:STOP"),
        (["sample", "vectors.fbin", "o.npy"], 2, "choose one of"),
        (["split", "vectors.fbin", "o.npy", "--rows", "0"], 2, "rows must be at least 1"),
        (["split", "vectors.fbin", "o.npy", "--parts", "-2"], 2, "parts must be at least 1"),
        (["split", "vectors.fbin", "o.npy"], 2, "either rows or parts"),
        (["merge", "no-*.fbin", "-o", "o.fbin"], 2, "no file matches"),
        (["merge", "vectors.fbin"], 2, "output"),
        (["bogus"], 2, "No such command"),
        (["info", "vectors.fbin", "--bogus"], 2, "No such option"),
    ],
)
def test_bad_usage_is_one_clear_line(cli, folder, arguments, code, expected):
    before = files(folder)
    found, _out, err = cli(*arguments)
    assert (found, len(err.strip().splitlines())) == (code, 1), err
    assert expected in err
    assert files(folder) == before


def test_mixed_dimensions_are_named(cli, folder):
    import polyvec as pv

    pv.write("other.fbin", np.zeros((3, 17), np.float32))
    code, _, err = cli("merge", "vectors.fbin", "other.fbin", "-o", "o.fbin")
    assert code == 2 and "dimension 16" in err and "dimension 17" in err and "other.fbin" in err


def test_gaps_and_duplicates_in_shards_are_reported(cli, folder):
    (folder / "shard-00001-of-00003.fbin").rename(folder / "x.fbin")
    code, out, _ = cli("merge", "shard-*.fbin", "-o", "o.fbin", "--dry-run")
    assert code == 0 and "1 of 3 shards are missing: 1" in out and not (folder / "o.fbin").exists()
    code, _, err = cli("merge", "shard-*.fbin", "-o", "o.fbin", "--strict")
    assert code == 2 and "missing" in err
    code, out, _ = cli("merge", "vectors.fbin", "vectors.fbin", "-o", "o.fbin", "--no-sidecar")
    assert code == 0 and "given more than once" in out


def test_lenient_takes_the_whole_rows(cli, folder):
    content = (folder / "queries.fbin").read_bytes()
    (folder / "cut.fbin").write_bytes(content[:-1])
    assert cli("convert", "cut.fbin", "o.npy")[0] == 1
    code, _, err = cli("convert", "cut.fbin", "o.npy", "--lenient")
    assert code == 0 and "4 of 5 rows" in err
    assert np.load("o.npy").shape == (4, 16)


def test_extra_bytes_are_a_warning(cli, folder):
    (folder / "long.fbin").write_bytes((folder / "queries.fbin").read_bytes() + b"xyz")
    code, out, err = cli("convert", "long.fbin", "o.npy")
    assert code == 0 and "3 extra bytes" in err
    code, out, _ = cli("verify", "long.fbin")
    assert code == 0 and "warning" in out and "3 extra bytes" in out


def test_interrupting_a_conversion_cleans_up(folder):
    """Ctrl-C in the middle: exit 130, one line, no temporary file, the old target still there."""
    (folder / "old.npy").write_bytes(b"old")
    script = (
        "import os, signal, sys\n"
        "from polyvec.core.local_sinks import LocalSink\n"
        "plain = LocalSink.copy_from\n"
        "def slow(self, *a, **k):\n"
        "    plain(self, *a, **k); print('writing', flush=True); import time; time.sleep(20)\n"
        "LocalSink.copy_from = slow\n"
        "from polyvec.cli import run\n"
        "sys.exit(run(['convert', 'vectors.fbin', 'old.npy', '-f']))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "writing\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130 and "interrupted" in err and "Traceback" not in err
    assert (folder / "old.npy").read_bytes() == b"old"
    assert not [path for path in folder.iterdir() if "polyvec-tmp" in path.name]


@pytest.mark.parametrize("command", ["convert", "sample", "split"])
def test_a_shard_of_the_input_is_no_output(cli, folder, command):
    before = files(folder)
    target = {"split": "shard.fbin"}.get(command, "shard-00001-of-00003.fbin")
    rest = {"sample": ["--head", "3"], "split": ["--parts", "3"]}.get(command, [])
    code, _, err = cli(command, "shard-*.fbin", target, "-f", *rest)
    assert code == 2 and "the output is also an input" in err
    assert files(folder) == before


@pytest.mark.parametrize("command", ["convert", "merge", "sample", "split"])
def test_a_dry_run_refuses_an_output_that_the_run_would_refuse(cli, folder, command):
    rest = {"merge": ["-o"], "sample": ["--head", "3"], "split": ["--rows", "300"]}.get(command, [])
    (folder / "queries-00000-of-00001.fbin").write_bytes(b"old")
    for more in (["--dry-run"], []):
        code, _, err = cli(command, "vectors.fbin", *rest, "queries.fbin", *more)
        assert code == 2 and "the output exists; use --force" in err


def test_a_pipe_is_not_replaced_by_a_file(cli, folder):
    """As root, /dev/null would be gone for everyone."""
    os.mkfifo(folder / "pipe.npy")
    for more in ([], ["-f"], ["-f", "--dry-run"]):
        code, _, err = cli("convert", "vectors.fbin", "pipe.npy", *more)
        assert code == 2 and "a device or a pipe" in err and "write to -" in err
    assert (folder / "pipe.npy").is_fifo()


def test_a_split_that_cannot_end_leaves_no_shard(cli, folder):
    (folder / "o-00002-of-00003.fbin").write_bytes(b"old")
    before = files(folder)
    code, _, err = cli("split", "vectors.fbin", "o.fbin", "--parts", "3")
    assert code == 2 and "o-00002-of-00003.fbin: the output exists" in err
    assert files(folder) == before


def test_an_interrupted_split_takes_its_shards_back(cli, folder, monkeypatch):
    from polyvec.verbs import split

    plain, calls = split.write_collection, []

    def write(path, *rest, **options):
        calls.append(path)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(path, *rest, **options)

    monkeypatch.setattr(split, "write_collection", write)
    before = files(folder)
    code, _, err = cli("split", "vectors.fbin", "o.fbin", "--parts", "4")
    assert code == 130 and "no output was changed" in err and len(calls) == 3
    assert files(folder) == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_says_what_became_of_the_output(cli, folder, monkeypatch, moment):
    plain = os.replace

    def interrupted(source, target):
        if moment == "after":
            plain(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    code, _, err = cli("convert", "queries.fbin", "o.npy")
    told = {"before": "interrupted; no output was changed", "after": "interrupted; o.npy is complete"}[moment]
    assert code == 130 and told in err and "--resume" not in err
    assert (folder / "o.npy").exists() == (moment == "after") and not list(folder.glob(".o.npy*"))


def test_an_interrupt_in_a_resumable_job_does_not_call_its_parts_outputs(cli, folder, monkeypatch):
    from polyvec.verbs import resume

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(resume, "_join", interrupted)
    code, _, err = cli("convert", "queries.fbin", "o.npy", "--resume")
    assert code == 130 and "no output was changed" in err


def test_one_missing_file_does_not_hide_the_others(cli, folder):
    code, out, err = cli("verify", "vectors.fbin", "none.fbin", ".", "queries.fbin")
    assert code == 1 and err == ""
    assert "ok  vectors.fbin" in out and "ok  queries.fbin" in out
    assert "none.fbin: no such file" in out and "directory" in out
    code, _, err = cli("verify", "vectors.fbin", "queries.fbin", "--expect", "00")
    assert code == 2 and "the digest of one file" in err


def test_a_full_disk_names_the_output(cli, folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = files(folder)
    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    code, _, err = cli("convert", "vectors.fbin", "o.npy")
    assert code == 1 and "o.npy: no space left on device" in err
    assert files(folder) == before


def test_a_disk_that_is_too_small_is_told_and_force_goes_on(cli, folder, monkeypatch):
    np.save(folder / "large.npy", np.ones((1000, 1000), np.float32))
    before = files(folder)
    monkeypatch.setattr("polyvec.core.space.free_bytes", lambda _: 1_000_000)
    code, _, err = cli("convert", "large.npy", "o.fbin")
    assert code == 2 and "o.fbin: about 4.0 MB will be written and 1.0 MB are free in" in err and "--force" in err
    assert files(folder) == before
    code, _, err = cli("convert", "large.npy", "o.fbin", "--force")
    assert code == 0 and "warning: o.fbin: about 4.0 MB" in err and (folder / "o.fbin").exists()


def test_being_asked_to_end_cleans_up_too(folder):
    script = (
        "import sys\n"
        "from polyvec.core.local_sinks import LocalSink\n"
        "plain = LocalSink.copy_from\n"
        "def slow(self, *a, **k):\n"
        "    plain(self, *a, **k); print('writing', flush=True); import time; time.sleep(20)\n"
        "LocalSink.copy_from = slow\n"
        "from polyvec.cli import main\n"
        "sys.argv = ['polyvec', 'convert', 'vectors.fbin', 'o.npy']\n"
        "main()\n"
    )
    before = files(folder)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "writing\n"
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 143 and "Traceback" not in err
    assert files(folder) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("similar", "words.fifu", "Z\udcfcrich"),
        ("analogy", "words.fifu", "Berlin", "Z\udcfcrich", "hello"),
        ("search", "words.fifu", "--word", "Z\udcfcrich"),
        ("search", "vectors.fbin", "--text", "Z\udcfcrich", "--model", "minilm.weights"),
        ("search", "vectors.fbin", "--row", "0", "--where", "name=Z\udcfcrich"),
        ("embed", "texts.jsonl", "out.npy", "--model", "minilm.weights", "--prompt", "Z\udcfcrich"),
        ("publish", "vectors.fbin", "site", "--title", "Z\udcfcrich"),
    ],
)
def test_an_argument_that_is_no_text_is_told(cli, arguments):
    code, _, err = cli(*arguments)
    assert code == 2 and r"the argument '" in err and r"Z\xfcrich' is not UTF-8: byte 0xfc" in err


@pytest.mark.parametrize("asked", ["0", "x"])
@pytest.mark.parametrize(
    "command", ["stats vectors.fbin", "search vectors.fbin --row 1", "convert vectors.fbin o.f16bin"]
)
def test_a_number_of_threads_that_is_none_is_one_clear_line(cli, folder, monkeypatch, command, asked):
    monkeypatch.setenv("POLYVEC_THREADS", asked)
    code, _, told = cli(*command.split())
    assert (code, told) == (2, f"polyvec: POLYVEC_THREADS is '{asked}': expected a whole number of at least 1\n")
