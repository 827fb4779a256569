"""Conversions that are killed, and go on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec import cli
from polyvec.core.locks import LOCK_SUFFIX, job_lock
from polyvec.testing import vectors
from polyvec.testing.atomicity import killed_at
from polyvec.verbs import resume
from polyvec.verbs.parts import Parts

SHARDS = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(SHARDS):
        pv.write(
            tmp_path / f"s-{number}.fbin",
            vectors(20 + number, 6, seed=number),
            ids=[number * 100 + i for i in range(20 + number)],
        )
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def pattern(folder: Path) -> str:
    return str(folder / "s-*.fbin")


def count_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    make = Parts.make
    monkeypatch.setattr(Parts, "make", lambda self, number, *a: made.append(number) or make(self, number, *a))
    return made


TARGETS = [("out.fbin", {}), ("out.npy", {"encoding": "float16"}), ("out.safetensors", {}), ("out.f16bin", {})]


@pytest.mark.parametrize("name, options", TARGETS)
@pytest.mark.parametrize("verb", ["merge", "convert"])
def test_a_killed_run_continues_and_gives_the_same_bytes(
    folder: Path, name: str, options: dict[str, Any], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = getattr(pv, verb)
    work(pattern(folder), folder / f"whole-{name}", **options)
    target = folder / name
    # Two renames a part (its ids, itself) and one for the journal: the tenth is in the middle of the work.
    assert killed_at("replace", 11, lambda: work(pattern(folder), target, resume=True, **options))
    assert not target.exists() and (folder / f"{name}.parts" / "journal.json").exists()
    made = count_parts(monkeypatch)
    receipt = work(pattern(folder), target, resume=True, **options)
    assert made and made[0] > 0 and len(made) < SHARDS
    assert target.read_bytes() == (folder / f"whole-{name}").read_bytes()
    assert (folder / f"{name}.ids.npy").read_bytes() == (folder / f"whole-{name}.ids.npy").read_bytes()
    assert any("parts were there already" in note for note in receipt.notes)
    assert not (folder / f"{name}.parts").exists()


def test_a_kill_at_any_rename_is_survived(folder: Path) -> None:
    pv.merge(pattern(folder), folder / "whole.fbin")
    for call in range(1, 18):
        target = folder / f"out{call}.fbin"
        if not killed_at("replace", call, lambda: pv.merge(pattern(folder), target, resume=True)):  # noqa: B023
            break
        pv.merge(pattern(folder), target, resume=True)
        assert target.read_bytes() == (folder / "whole.fbin").read_bytes()
        assert not list(folder.glob("*.parts")) and not list(folder.glob(".*"))


def test_an_uninterrupted_run_leaves_nothing_but_the_output(folder: Path) -> None:
    before = names(folder)
    receipt = pv.merge(pattern(folder), folder / "out.fbin", resume=True, sha256=True)
    assert names(folder) - before == {"out.fbin", "out.fbin.ids.npy", "out.fbin.sidecars.json"}
    assert receipt.rows == 110 and receipt.loss is not None and receipt.loss.exact and receipt.sha256


def stopped(folder: Path, target: Path, **options: Any) -> Path:
    assert killed_at("replace", 11, lambda: pv.merge(pattern(folder), target, resume=True, **options))
    return target.with_name(target.name + ".parts")


def test_a_part_with_another_hash_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pv.merge(pattern(folder), folder / "whole.fbin")
    parts = stopped(folder, folder / "out.fbin")
    damaged = bytearray((parts / "part-00001.fbin").read_bytes())
    damaged[40] ^= 1
    (parts / "part-00001.fbin").write_bytes(damaged)
    made = count_parts(monkeypatch)
    pv.merge(pattern(folder), folder / "out.fbin", resume=True)
    assert 0 not in made and 1 in made
    assert (folder / "out.fbin").read_bytes() == (folder / "whole.fbin").read_bytes()


@pytest.mark.parametrize("change", ["input", "options", "journal", "names"])
def test_parts_of_another_job_are_not_used(folder: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = stopped(folder, folder / "out.npy")
    options: dict[str, Any] = {}
    if change == "input":
        pv.write(folder / "s-0.fbin", vectors(20, 6, seed=99), ids=list(range(20)))
    elif change == "options":
        options["encoding"] = "float16"
    elif change == "journal":
        (parts / "journal.json").write_bytes(b"{")
    else:
        journal = json.loads((parts / "journal.json").read_bytes())
        journal["parts"] = {number: {"../s-0.fbin": "0"} for number in journal["parts"]}
        (parts / "journal.json").write_text(json.dumps(journal))
    made = count_parts(monkeypatch)
    pv.merge(pattern(folder), folder / "out.npy", resume=True, **options)
    assert made == list(range(SHARDS))
    pv.merge(pattern(folder), folder / "whole.npy", **options)
    assert (folder / "out.npy").read_bytes() == (folder / "whole.npy").read_bytes()


def test_one_large_file_is_cut_into_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "PIECE_BYTES", 7 * 24)
    made = count_parts(monkeypatch)
    pv.convert(folder / "s-0.fbin", folder / "out.npy", resume=True)
    assert made == [0, 1, 2]
    with pv.open(folder / "out.npy") as c:
        assert np.array_equal(c.vectors, vectors(20, 6)) and list(map(int, c.ids)) == list(range(20))


def test_a_lossy_target_is_encoded_once_and_its_loss_is_that_against_the_source(folder: Path) -> None:
    whole = pv.merge(pattern(folder), folder / "whole.f16bin")
    parts = pv.merge(pattern(folder), folder / "out.f16bin", resume=True)
    assert parts.loss == whole.loss and not parts.loss.exact and parts.codec == whole.codec


def test_two_runs_do_not_work_on_the_same_parts(folder: Path) -> None:
    before = names(folder)
    with job_lock(folder / "out.fbin"):
        with pytest.raises(pv.InputError, match=r"out\.fbin: another run is writing this output"):
            pv.merge(pattern(folder), folder / "out.fbin", resume=True)
        assert names(folder) - before == {f".out.fbin{LOCK_SUFFIX}"}
    assert names(folder) == before


def test_what_cannot_be_done_leaves_no_parts(folder: Path) -> None:
    with pytest.raises(pv.InputError, match="no int8 encoding"):
        pv.merge(pattern(folder), folder / "out.npy", resume=True, encoding="int8")
    with pytest.raises(pv.InputError, match="cannot be resumed"):
        pv.merge(pattern(folder), "-", resume=True, format="fbin")
    with pytest.raises(pv.InputError, match="also an input"):
        pv.merge(pattern(folder), folder / "s-0.fbin", resume=True)
    with pytest.raises(pv.InputError, match="exists"):
        pv.merge([folder / "s-1.fbin"], folder / "s-0.fbin", resume=True, overwrite=False)
    assert not [name for name in names(folder) if name.startswith("out")]


@pytest.mark.parametrize("again", [False, True])
def test_more_shards_than_the_soft_limit_of_open_files(tmp_path: Path, again: bool) -> None:
    import resource

    for number in range(150):
        pv.write(tmp_path / f"s-{number:03d}.fbin", vectors(2, 3, seed=number), durable=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        receipt = pv.merge(pattern(tmp_path), tmp_path / "out.fbin", resume=again, durable=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert receipt.rows == 300


def test_files_of_others_in_the_folder_are_left_alone(folder: Path) -> None:
    parts = stopped(folder, folder / "out.fbin")
    (parts / "notes.txt").write_text("mine")
    pv.merge(pattern(folder), folder / "out.fbin", resume=True)
    assert names(parts) == {"notes.txt"}


def test_an_input_or_sidecar_of_the_same_size_and_time_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folder / "out.fbin"
    for path in (folder / "s-0.fbin", folder / "s-0.fbin.ids.npy"):
        assert killed_at("replace", 12, lambda: pv.merge(pattern(folder), target, resume=True))
        (folder / "s-0.fbin.sidecars.json").unlink(missing_ok=True)
        made = count_parts(monkeypatch)
        status, data = path.stat(), bytearray(path.read_bytes())
        data[-8] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        pv.merge(pattern(folder), target, resume=True)
        assert made[0] == 0  # the first part was made anew
        pv.merge(pattern(folder), folder / "whole.fbin")
        assert target.read_bytes() == (folder / "whole.fbin").read_bytes()
        assert (folder / "out.fbin.ids.npy").read_bytes() == (folder / "whole.fbin.ids.npy").read_bytes()


def test_an_input_that_changes_meanwhile_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Parts.make

    def changing(self: Any, number: int, *rest: Any) -> None:
        make(self, number, *rest)
        if number == 3:
            pv.write(folder / "s-1.fbin", vectors(21, 6, seed=9), ids=range(21))

    monkeypatch.setattr(Parts, "make", changing)
    with pytest.raises(pv.InputError, match="changed while"):
        pv.merge(pattern(folder), folder / "out.fbin", resume=True)
    assert not (folder / "out.fbin").exists()


def test_what_a_command_began_a_program_continues(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"mmap_optimized": True, "allow_overflow": False, "chunk_rows": 7}
    pv.merge(pattern(folder), folder / "whole.cvc", **options)
    typed = ["mmap_optimized=yes", "allow-overflow=0", "chunk_rows=7"]
    line = ["merge", pattern(folder), "-o", str(folder / "out.cvc"), "--resume"]
    line += [word for pair in typed for word in ("--option", pair)]
    assert killed_at("replace", 11, lambda: cli.run(line))
    assert (folder / "out.cvc.parts" / "journal.json").exists()
    made = count_parts(monkeypatch)
    receipt = pv.merge(pattern(folder), folder / "out.cvc", resume=True, **options, layout=None)
    assert made and made[0] > 0 and any("parts were there already" in note for note in receipt.notes)
    assert (folder / "out.cvc").read_bytes() == (folder / "whole.cvc").read_bytes()


def test_other_values_of_options_begin_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert killed_at(
        "replace", 11, lambda: pv.merge(pattern(folder), folder / "o.cvc", resume=True, mmap_optimized=True)
    )
    made = count_parts(monkeypatch)
    pv.merge(pattern(folder), folder / "o.cvc", resume=True, mmap_optimized=False)
    assert made == [*range(SHARDS)]
