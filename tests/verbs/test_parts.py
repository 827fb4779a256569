"""Parts of a job: kept with their hashes, used only where every file is whole, and swept when all is done."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.verbs.parts import JOURNAL, Parts, Piece, bytes_there, parts_folder
from polyvec.writing.options import Writing

ROWS = vectors(10, 3)
JOB = {"inputs": ["in.fbin"], "sizes": [3, 7]}
STAGE = Writing(format="fbin", sha256=True, durable=False)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    pv.write(tmp_path / "in.fbin", ROWS, ids=range(10), durable=False)
    return tmp_path / "out.fbin"


def make(parts: Parts, target: Path, *numbers: int) -> None:
    pieces = [Piece(str(target.with_name("in.fbin")), 0, 3), Piece(str(target.with_name("in.fbin")), 3, 10)]
    for number in numbers:
        parts.make(number, pieces[number], STAGE, {}, None)


def test_parts_hold_their_rows_and_the_journal_their_hashes(target: Path) -> None:
    with Parts(target, JOB) as parts:
        make(parts, target, 0, 1)
        one, two = parts.paths(2)
        assert [path.name for path in (one, two)] == ["part-00000.fbin", "part-00001.fbin"]
        with pv.open(one) as first, pv.open(two) as second:
            assert np.array_equal(np.concatenate([first.vectors[:], second.vectors[:]]), ROWS)
            assert second.ids[:].tolist() == list(range(3, 10))
    journal = json.loads((parts_folder(target) / JOURNAL).read_bytes())
    assert journal["job"] == JOB and list(journal["parts"]) == ["0", "1"]
    for files in journal["parts"].values():
        assert len(files) > 1, "its sidecars too"
        for name, digest in files.items():
            assert hashlib.sha256((parts.folder / name).read_bytes()).hexdigest() == digest
    assert bytes_there(target) == sum(path.stat().st_size for path in parts.folder.glob("part-*")) > 0


def test_another_run_of_the_same_job_finds_them_ready(target: Path) -> None:
    with Parts(target, JOB) as parts:
        make(parts, target, 0)
    with Parts(target, {**JOB, "sizes": (3, 7)}) as again:  # a tuple is a list in the journal
        assert again.ready(0) and not again.ready(1) and again.kept == 1
    with Parts(target, {**JOB, "inputs": ["other.fbin"]}) as other:
        assert not other.ready(0) and other.kept == 0


@pytest.mark.parametrize("harm", ["change", "remove", "sidecar"])
def test_a_part_of_which_one_file_is_not_whole_is_not_ready(target: Path, harm: str) -> None:
    with Parts(target, JOB) as parts:
        make(parts, target, 0, 1)
    path = parts.folder / ("part-00000.fbin.ids.npy" if harm == "sidecar" else "part-00000.fbin")
    path.unlink() if harm == "remove" else path.write_bytes(path.read_bytes()[:-1] + b"\xfe")
    with Parts(target, JOB) as again:
        assert not again.ready(0) and again.ready(1) and again.kept == 1


@pytest.mark.parametrize("journal", [b"{", b"[]", b"{}", b'{"job": 1, "parts": {}}', json.dumps({"job": JOB}).encode()])
def test_a_journal_that_says_nothing_of_this_job_is_an_empty_one(target: Path, journal: bytes) -> None:
    parts_folder(target).mkdir()
    (parts_folder(target) / JOURNAL).write_bytes(journal)
    with Parts(target, JOB) as parts:
        assert not parts.ready(0)
    assert not parts_folder(target).exists()


@pytest.mark.parametrize("files", [{}, "x", {"../in.fbin": ""}, {"gone": ""}])
def test_a_journal_names_whole_files_of_its_own_folder_only(target: Path, files: Any) -> None:
    outside = hashlib.sha256(target.with_name("in.fbin").read_bytes()).hexdigest()
    named = dict.fromkeys(files, outside) if isinstance(files, dict) else files
    parts_folder(target).mkdir()
    (parts_folder(target) / JOURNAL).write_text(json.dumps({"job": JOB, "parts": {"0": named}}))
    with Parts(target, JOB) as parts:
        assert not parts.ready(0)


def test_what_is_forgotten_goes_and_what_others_keep_there_stays(target: Path) -> None:
    assert bytes_there(target) == 0, "no folder"
    with Parts(target, JOB) as parts:
        make(parts, target, 0)
        (parts.folder / "notes.txt").write_text("mine")
        parts.forget()
    assert [path.name for path in parts.folder.iterdir()] == ["notes.txt"]
