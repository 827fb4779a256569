"""Digests beside a file: what verify compares content with where a format has no checksums."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.cli import run
from polyvec.core.sources import open_source
from polyvec.fbin import write_fbin
from polyvec.testing import vectors

ROWS = vectors(9, 4)


def made(folder: Path, name: str = "a.fbin", **options: object) -> Path:
    pv.write(folder / name, ROWS, durable=False, **options)
    return folder / name


def flip(path: Path, place: int = -3) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_file_without_checksums_is_said_to_be_checked_by_structure_alone(tmp_path: Path, capsys) -> None:
    path = made(tmp_path)
    report = pv.verify(path)
    assert report.ok and (report.checked, report.against) == ("structure", None)
    flip(path)
    assert pv.verify(path).ok, "nothing can tell"
    assert run(["verify", str(path)]) == 0
    assert "structure only, nothing to compare content with" in capsys.readouterr().out
    assert run(["verify", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["checked"] == "structure"


@pytest.mark.parametrize("name", ["a.cvc", "a.weights", "a.npz"])
def test_a_files_own_checksums_are_content(tmp_path: Path, capsys, name: str) -> None:
    path = made(tmp_path, name)
    report = pv.verify(path)
    assert report.ok and (report.checked, report.against) == ("content", "its own checksums")
    assert run(["verify", str(path)]) == 0 and "content matches its own checksums" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.npy", "a.safetensors", "a.fvecs", "a.fifu"])
def test_formats_without_checksums_never_claim_content(tmp_path: Path, name: str) -> None:
    words = [f"w{i}" for i in range(9)]
    path = made(tmp_path, name, **({"vocab": words} if name == "a.fifu" else {}))
    assert pv.verify(path).checked == "structure"


def test_a_digest_is_written_once_and_compared_from_then_on(tmp_path: Path, capsys) -> None:
    path = made(tmp_path, records=[{"n": i} for i in range(9)])
    report = pv.verify(path, write_digest=True)
    assert report.ok and report.digest == str(path) + ".sha256" and report.checked == "content"
    later = pv.verify(path)
    assert later.ok and (later.checked, later.against, later.digest) == ("content", "a.fbin.sha256", None)
    assert run(["verify", str(path), "--write-digest"]) == 0
    assert "content matches a.fbin.sha256" in capsys.readouterr().out
    for name in ("a.fbin", "a.fbin.records.jsonl"):
        before = (tmp_path / name).read_bytes()
        flip(tmp_path / name)
        bad = pv.verify(path)
        assert not bad.ok and any("is not what a.fbin.sha256 says" in f.message for f in bad.findings), name
        assert run(["verify", str(path), "--write-digest"]) == 1, "a digest never blesses damage"
        (tmp_path / name).write_bytes(before)
    assert pv.verify(path).ok
    (tmp_path / "a.fbin.records.jsonl").unlink()
    assert any("is missing" in f.message for f in pv.verify(path).findings)


def test_an_edit_is_told_from_damage_by_its_time(tmp_path: Path) -> None:
    path = made(tmp_path)
    pv.verify(path, write_digest=True)
    when = path.stat().st_mtime
    flip(path)
    os.utime(path, (when - 100, when - 100))
    assert "it is damaged" in pv.verify(path).findings[0].message
    os.utime(path, (when + 100, when + 100))
    assert "changed after its digest was written" in pv.verify(path).findings[0].message


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs coreutils")
def test_other_tools_read_our_digests_and_we_read_theirs(tmp_path: Path) -> None:
    for name in ("a.fbin", "odd\\name\nof a file.fbin"):
        path = made(tmp_path, name, ids=list(range(9)))
        pv.verify(path, write_digest=True)
        done = subprocess.run(["sha256sum", "-c", f"{name}.sha256"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.count("OK") == 3, done.stderr
        for style in ([], ["--tag"], ["--binary"]):
            theirs = subprocess.run(["sha256sum", *style, name], cwd=tmp_path, capture_output=True, check=True).stdout
            (tmp_path / f"{name}.sha256").write_bytes(theirs)
            report = pv.verify(path)
            assert report.ok and report.against == f"{name}.sha256"
            assert any("has no digest" in f.message for f in report.findings), "its sidecars have none now"


def test_a_digest_without_a_name_or_with_a_folder_is_of_the_file(tmp_path: Path) -> None:
    path = made(tmp_path)
    digest = pv.verify(path, sha256=True).sha256
    for text in (
        f"{digest}\n",
        f"{digest}  some/folder/a.fbin\r\n",
        f"# made by hand\n\n{str(digest).upper()}  ./a.fbin",
    ):
        (tmp_path / "a.fbin.sha256").write_text(text)
        assert pv.verify(path).against == "a.fbin.sha256"
    (tmp_path / "a.fbin.sha256").write_text(f"{digest}  other.fbin\n")
    report = pv.verify(path)
    assert report.ok and report.checked == "structure" and "does not name it" in report.findings[0].message
    (tmp_path / "a.fbin.sha256").write_text("nonsense\n")
    assert not pv.verify(path).ok


def test_who_replaces_a_file_removes_its_digest(tmp_path: Path) -> None:
    path = made(tmp_path)
    digest = tmp_path / "a.fbin.sha256"
    np.save(tmp_path / "other.npy", ROWS + 1)
    for replace in (
        lambda: pv.write(path, ROWS + 1),
        lambda: pv.convert(tmp_path / "other.npy", path),
        lambda: pv.convert(tmp_path / "other.npy", path, resume=True),
        lambda: write_fbin(path, ROWS + 2),
        lambda: pv.sample(tmp_path / "other.npy", path, head=3),
    ):
        pv.verify(path, write_digest=True)
        assert digest.exists()
        replace()
        assert not digest.exists()
        assert pv.verify(path).ok


def test_standard_input_and_bad_files_get_no_digest(tmp_path: Path) -> None:
    with pytest.raises(pv.InputError, match="no place for a digest"):
        pv.verify(open_source(made(tmp_path).read_bytes(), name="a.fbin"), write_digest=True)
    (tmp_path / "b.fbin").write_bytes(b"\1\0\0\0\1\0\0\0")
    assert not pv.verify(tmp_path / "b.fbin", write_digest=True).ok
    assert not (tmp_path / "b.fbin.sha256").exists()


def test_progress_counts_the_hashing_too(tmp_path: Path) -> None:
    path = made(tmp_path)
    told: list[tuple[int, int]] = []
    pv.verify(path, progress=lambda current, total: told.append((current, total)))
    assert told[-1] == (path.stat().st_size,) * 2
    pv.verify(path, write_digest=True, progress=lambda current, total: told.append((current, total)))
    assert told[-1] == (2 * path.stat().st_size,) * 2
