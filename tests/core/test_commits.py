"""Commits of several files: every moment reads as the old set or as the new one, whatever stops the writer."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import polyvec as pv
from polyvec.core import journal
from polyvec.core.commits import changed_outputs, forget_outputs, sweep
from polyvec.core.errors import Corrupt, FormatWarning, InputError, Replaced
from polyvec.core.journal import JOURNAL, TEMP_SUFFIX, Journal, Move, Removal, before, exists, parse_journal
from polyvec.core.shards import expand
from polyvec.core.sources import Source, open_source
from polyvec.core.targets import Together, open_sink
from polyvec.formats import opening, origins
from polyvec.testing.atomicity import contents, killed_at

CALLS = ("replace", "unlink", "fsync")
ROWS = np.arange(36, dtype=np.float32).reshape(9, 4)


def write_set(target: Path, number: int, *, ids: bool = True) -> None:
    """A file whose rows, records and ids all say the same number; the odd ones keep words, the even ones do not."""
    words = {"vocab": [f"{number} {row}" for row in range(9)]} if number % 2 else {}
    records = [{"of": number, "row": row, "pad": "x" * number} for row in range(9)]
    pv.write(target, ROWS + number, records=records, ids=[number] * 9 if ids else None, durable=number < 100, **words)


def read_set(target: Path) -> int:
    """The number that all parts of a file tell."""
    with pv.open(target) as found:
        number = int(found.vectors[0:1][0, 0])
        assert np.array_equal(found.vectors[:], ROWS + number)
        assert [record["of"] for record in found.records] == [number] * 9
        assert found.ids is None or found.ids.to_numpy().tolist() == [number] * 9
        assert (found.vocab is not None) == bool(number % 2)
        assert found.vocab is None or found.vocab.words[3] == f"{number} 3"
    return number


def every_kill(work: Callable[[], object], check: Callable[[str], None], reset: Callable[[], None]) -> int:
    """Kill ``work`` in every call of every kind, each time from the same start; how many kills there were."""
    kills = 0
    for name in CALLS:
        call = 1
        while True:
            reset()
            died = killed_at(name, call, work)
            check(f"{name} {call}")
            if not died:
                break
            kills += 1
            call += 1
    return kills


def start_over(folder: Path, begin: Callable[[], object]) -> Callable[[], None]:
    def reset() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        begin()

    return reset


def test_a_kill_at_any_moment_leaves_the_old_set_or_the_new(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    target = folder / "a.fbin"
    seen = set()

    def check(moment: str) -> None:
        seen.add(number := read_set(target))
        assert number in (1, 2), moment
        assert pv.verify(target).ok, moment
        beforehand = contents(folder)
        assert read_set(target) == number and contents(folder) == beforehand, "a reader changed something"
        with open_sink(folder / "another") as sink:  # any writer in the folder finishes what was committed
            sink.write(b"x")
        assert not (folder / JOURNAL).exists() and read_set(target) == number, moment
        write_set(target, 4)
        assert read_set(target) == 4, moment
        left = [name for name in contents(folder) if name.startswith(".")]
        assert not left, f"{moment}: {left}"

    kills = every_kill(lambda: write_set(target, 2), check, start_over(folder, lambda: write_set(target, 1)))
    assert kills > 10 and seen == {1, 2}


def test_a_kill_while_the_first_set_is_written_leaves_nothing_or_all(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    target = folder / "a.fbin"

    def check(moment: str) -> None:
        if exists(target):
            assert read_set(target) == 1, moment
        else:
            with pytest.raises(FileNotFoundError):
                pv.open(target)
            np.save(folder / "other.npy", ROWS)
            pv.convert(folder / "other.npy", target)
            with pv.open(target) as found:
                assert found.records is None and found.ids is None, f"{moment}: parts of a set that never was"

    assert every_kill(lambda: write_set(target, 1), check, start_over(folder, lambda: None)) > 8


@pytest.mark.parametrize("name", CALLS)
def test_an_error_at_any_moment_leaves_the_old_set_or_the_new(tmp_path: Path, name: str) -> None:
    target = tmp_path / "a.fbin"
    real = getattr(os, name)
    for call in range(1, 30):
        write_set(target, 1)
        calls = 0

        def failing(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:  # noqa: B023
                raise OSError(errno.EIO, "Input/output error")
            return real(*arguments, **named)

        failed = None
        with mock.patch.object(os, name, failing):
            try:
                write_set(target, 2)
            except OSError as error:
                failed = error
        number = read_set(target)
        assert (number == 1) == (failed is not None), "it failed and is done, or it did not fail and is not done"
        assert failed is None or TEMP_SUFFIX not in str(failed)
        assert pv.verify(target).ok
        if number == 1:
            assert not [file for file in contents(tmp_path) if file.startswith(".") and name != "unlink"]
        if calls < call:
            return
    pytest.fail("more calls than one would think")


def test_a_folder_that_fails_for_good_still_reads_as_the_new_set(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    write_set(target, 1)
    real = os.replace

    def failing(source: Any, destination: Any) -> None:
        if Path(destination).name == "a.fbin":
            raise OSError(errno.EIO, "Input/output error", str(source), None, str(destination))
        real(source, destination)

    with mock.patch.object(os, "replace", failing):
        with pytest.raises(OSError, match=r"the new file is complete.*input/output error.*a\.fbin") as caught:
            write_set(target, 2)
        assert TEMP_SUFFIX not in str(caught.value)
        assert read_set(target) == 2
        with pytest.raises(OSError, match="earlier write of this file could not be finished") as caught:
            write_set(target, 3)
        assert JOURNAL in str(caught.value) and read_set(target) == 2
    write_set(target, 3)
    assert read_set(target) == 3 and JOURNAL not in contents(tmp_path)


def test_an_interrupt_after_the_moment_is_raised_and_all_is_done(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    write_set(target, 1)
    real, calls = os.replace, 0

    def interrupted(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        real(*arguments)

    with mock.patch.object(os, "replace", interrupted), pytest.raises(KeyboardInterrupt):
        write_set(target, 2)
    assert read_set(target) == 2
    assert not [name for name in contents(tmp_path) if name.startswith(".")]


def test_one_file_alone_is_one_rename(tmp_path: Path) -> None:
    names = []
    real = os.replace
    with mock.patch.object(os, "replace", lambda a, b: (names.append(Path(b).name), real(a, b))):
        pv.write(tmp_path / "a.fbin", ROWS)
    assert names == ["a.fbin"]


# -- what the journal may say


def journal_of(folder: Path, *, moves: list[tuple[str, str]] = [], removals: list[str] = []) -> bytes:  # noqa: B006
    return Journal(
        {name: Move(name, temp, before(folder / name)) for name, temp in moves},
        {name: Removal(name, before(folder / name)) for name in removals},
    ).to_bytes()


def test_a_journal_names_files_of_its_own_folder_only(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "outside").write_bytes(b"stay")
    (inside / "a").write_bytes(b"stay")
    temp = f".a.01234567{TEMP_SUFFIX}"
    (inside / temp).write_bytes(b"new")
    good = journal_of(inside, moves=[("a", temp)])
    assert parse_journal(good).moves["a"].temp == temp
    hostile = [
        journal_of(inside, removals=["../outside"]),
        journal_of(inside, removals=[str(tmp_path / "outside")]),
        journal_of(inside, removals=[".."]),
        journal_of(inside, removals=[""]),
        journal_of(inside, removals=[JOURNAL]),
        journal_of(inside, moves=[("../outside", f".../outside.01234567{TEMP_SUFFIX}")]),
        journal_of(inside, moves=[("b", "a")]),
        journal_of(inside, moves=[("b", temp)]),
        good[:-5],
        good.replace(b'"a"', b'"b"'),
        b"",
        b"[]",
        b"null",
        b'{"polyvec-commit": 1}',
        b"[" * 100_000,
        bytes(1000),
    ]
    for data in hostile:
        (inside / JOURNAL).write_bytes(data)
        with pytest.warns(FormatWarning, match="damaged|JSON"), open_source(inside / "a") as source:
            assert source.read_at(0, 9) == b"stay"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sweep(inside / "z")
        assert (tmp_path / "outside").read_bytes() == b"stay" and (inside / "a").read_bytes() == b"stay"
        assert not (inside / JOURNAL).exists()
    (inside / JOURNAL).write_bytes(good)
    with open_source(inside / "a") as source:
        assert source.read_at(0, 9) == b"new" and source.label == str(inside / "a")


def test_a_journal_that_is_no_plain_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "there").write_bytes(journal_of(tmp_path, removals=["a"]))
    for make in (lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("there")):
        make(tmp_path / JOURNAL)
        assert exists(tmp_path / "a")
        sweep(tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == b"old"
        (tmp_path / JOURNAL).rmdir() if (tmp_path / JOURNAL).is_dir() else (tmp_path / JOURNAL).unlink()


def test_another_users_journal_in_a_shared_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    tmp_path.chmod(0o1777)
    (tmp_path / JOURNAL).write_bytes(journal_of(tmp_path, removals=["a"]))
    assert not exists(tmp_path / "a")
    if os.geteuid() == 0:
        os.chown(tmp_path / JOURNAL, 4242, 4242)
        assert exists(tmp_path / "a")
        sweep(tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == b"old"


def test_who_may_read_the_files_may_read_the_journal(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    write_set(target, 1)
    target.chmod(0o640)
    narrow = os.umask(0o077)
    try:
        killed_at("replace", 2, lambda: write_set(target, 2))
    finally:
        os.umask(narrow)
    assert (tmp_path / JOURNAL).stat().st_mode & 0o777 == 0o644  # the records and ids are as they were: for everybody


def test_a_journal_that_cannot_be_read_for_a_moment_is_not_lost(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    write_set(target, 1)
    killed_at("replace", 3, lambda: write_set(target, 2))
    real = os.open

    def failing(path: Any, *arguments: Any, **named: Any) -> int:
        if os.fspath(path).endswith(JOURNAL):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path, *arguments, **named)

    with mock.patch.object(os, "open", failing):
        with pytest.raises(OSError, match="Input/output error"):
            pv.open(target)
        with pytest.raises(OSError, match="Input/output error"):
            write_set(tmp_path / "b.fbin", 3)
    assert read_set(target) == 2
    write_set(tmp_path / "b.fbin", 3)
    assert read_set(target) == 2


def test_a_file_that_somebody_puts_there_afterwards_stays(tmp_path: Path) -> None:
    temp = f".a.01234567{TEMP_SUFFIX}"
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "gone").write_bytes(b"old")
    (tmp_path / temp).write_bytes(b"new")
    (tmp_path / JOURNAL).write_bytes(journal_of(tmp_path, moves=[("a", temp)], removals=["gone"]))
    with open_source(tmp_path / "a") as source:
        assert source.read_at(0, 3) == b"new"
    assert not exists(tmp_path / "gone")
    for name in ("a", "gone"):
        (tmp_path / name).write_bytes(b"by hand, later")
    with open_source(tmp_path / "a") as source:
        assert source.read_at(0, 7) == b"by hand"
    assert exists(tmp_path / "gone")
    sweep(tmp_path / "a")
    assert contents(tmp_path) == {"a": b"by hand, later", "gone": b"by hand, later"}


def test_a_link_is_read_through_the_journal_of_the_file_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "a.fbin", tmp_path / "b.fbin"
    write_set(real, 1)
    link.symlink_to(real)
    assert read_set(link) == 1  # and the sidecars beside the file itself are found
    killed_at("replace", 3, lambda: write_set(real, 2))
    assert (tmp_path / "far" / JOURNAL).exists() and read_set(link) == 2


def test_a_name_as_long_as_the_system_allows_is_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".fbin")
    pv.write(target, ROWS)
    assert contents(tmp_path).keys() == {target.name}
    with pv.open(target) as found:
        assert found.rows == 9


# -- several outputs


def write_shards(folder: Path, word: bytes, names: tuple[str, ...], stale: tuple[str, ...] = ()) -> None:
    with Together() as files:
        files.discard(lambda: [folder / name for name in stale])
        for name in names:
            with open_sink(folder / name, together=files) as sink:
                sink.write(word)
                sink.sibling(f"{name}.ids").write(word)


def test_files_written_together_appear_together(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    seen = set()

    def check(moment: str) -> None:
        found = {path.name: open_source(path).read_at(0, 9) for path in expand(str(folder / "s-*"))}
        old = dict.fromkeys(["s-0", "s-0.ids", "s-1", "s-1.ids"], b"old")
        new = dict.fromkeys(["s-1", "s-1.ids", "s-2", "s-2.ids"], b"new")
        assert found in (old, new), moment
        seen.add(found == new)

    every_kill(
        lambda: write_shards(folder, b"new", ("s-1", "s-2"), ("s-0", "s-0.ids")),
        check,
        start_over(folder, lambda: write_shards(folder, b"old", ("s-0", "s-1"))),
    )
    assert seen == {True, False}


def test_a_set_that_fails_before_its_end_leaves_no_trace(tmp_path: Path) -> None:
    write_shards(tmp_path, b"old", ("s-0", "s-1"))
    beforehand = contents(tmp_path)
    with pytest.raises(RuntimeError), Together() as files:
        with open_sink(tmp_path / "s-0", together=files) as sink:
            sink.write(b"new")
        assert contents(tmp_path)["s-0"] == b"old"
        raise RuntimeError
    assert contents(tmp_path) == beforehand
    with pytest.raises(InputError, match="two outputs"), Together() as files:
        for _ in range(2):
            with open_sink(tmp_path / "s-0", together=files) as sink:
                sink.write(b"new")
    assert contents(tmp_path) == beforehand


# -- sidecars tied to their file


def test_another_file_in_its_place_does_not_get_the_sidecars(tmp_path: Path) -> None:
    target, other = tmp_path / "a.fbin", tmp_path / "b.fbin"
    write_set(target, 1)
    large = np.random.default_rng(0).standard_normal((2000, 64)).astype(np.float32)
    for rows in (ROWS + 5, ROWS[:5], large):
        pv.write(other, rows)
        shutil.copy(other, target)
        with pytest.raises(Corrupt, match=r"a\.fbin: .*a\.fbin\.records\.jsonl.*remove") as caught:
            pv.open(target)
        assert "\n" not in str(caught.value)
        assert not pv.verify(target).ok
    (tmp_path / "a.fbin.sidecars.json").unlink()
    write_set(target, 1)
    assert read_set(target) == 1


def test_a_change_anywhere_in_a_small_file_and_at_the_ends_of_a_large_one_is_seen(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    for rows in (np.zeros((100, 8), np.float32), np.zeros((10_000, 64), np.float32)):
        pv.write(target, rows, ids=range(len(rows)))
        data = bytearray(target.read_bytes())
        for at in (8, len(data) - 1, *([len(data) // 2] if len(rows) == 100 else [])):
            data[at] ^= 1
            target.write_bytes(data)
            with pytest.raises(Corrupt, match="bytes differ"):
                pv.open(target)
            data[at] ^= 1
        target.write_bytes(data)
        pv.open(target).close()


def test_verify_hashes_the_sidecars(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    write_set(target, 2)
    records = tmp_path / "a.fbin.records.jsonl"
    whole = records.read_bytes()
    records.write_bytes(whole.replace(b'"of": 2', b'"of": 3', 1))
    with pv.open(target) as found:
        assert found.records[0]["of"] == 3  # opening does not read it all
    assert any("sidecar is not the one" in finding.message for finding in pv.verify(target).findings)
    records.write_bytes(whole[:-20])
    with pytest.raises(Corrupt, match=r"records\.jsonl: this sidecar is not the one"):
        pv.open(target)
    records.unlink()
    assert any("missing" in finding.message for finding in pv.verify(target).findings)
    records.write_bytes(whole)
    assert pv.verify(target).ok


def test_a_lost_sidecar_is_told_on_opening_as_on_verifying(tmp_path: Path) -> None:
    target, out = tmp_path / "a.fbin", tmp_path / "out.fbin"
    pv.write(target, ROWS, ids=[f"id {row}" for row in range(9)])
    (tmp_path / "a.fbin.ids.txt").unlink()
    said = r"a\.fbin: its sidecar a\.fbin\.ids\.txt is missing.*put it back, or remove a\.fbin\.sidecars\.json"
    for use in (pv.open, lambda path: pv.search(path, ROWS), lambda path: pv.merge([path], out)):
        with pytest.raises(Corrupt, match=said):
            use(target)
    assert not out.exists()
    assert [finding.message.count("is missing") for finding in pv.verify(target).findings] == [1]
    (tmp_path / "a.fbin.sidecars.json").unlink()
    with pv.open(target) as found:
        assert found.ids is None


def test_one_of_several_sidecars_that_is_lost_is_told(tmp_path: Path) -> None:
    write_set(tmp_path / "a.fbin", 1)
    (tmp_path / "a.fbin.records.jsonl").unlink()
    with pytest.raises(Corrupt, match=r"its sidecar a\.fbin\.records\.jsonl is missing"):
        pv.open(tmp_path / "a.fbin")


def test_sidecars_made_by_hand_are_taken_as_they_are(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.fbin", ROWS)
    (tmp_path / "a.fbin.ids.txt").write_text("".join(f"id {row}\n" for row in range(9)))
    with pv.open(tmp_path / "a.fbin") as found:
        assert found.ids[3] == "id 3"


def test_a_damaged_tie_is_a_format_error(tmp_path: Path) -> None:
    write_set(tmp_path / "a.fbin", 1)
    tie = tmp_path / "a.fbin.sidecars.json"
    told = json.loads(tie.read_bytes())
    for broken in (
        b"",
        b"[]",
        b"{}",
        json.dumps({**told, "polyvec-sidecars": 9}).encode(),
        json.dumps({**told, "file": {"bytes": -1, "fingerprint": ""}}).encode(),
        json.dumps({**told, "sidecars": {".ids.npy": 1}}).encode(),
    ):
        tie.write_bytes(broken)
        with pytest.raises(Corrupt):
            pv.open(tmp_path / "a.fbin")


def test_an_edit_in_place_keeps_the_sidecars_and_a_new_file_drops_them(tmp_path: Path) -> None:
    from polyvec.cvc import add_column, pack_cvc

    target = tmp_path / "a.cvc"
    pv.write(target, {"x": ROWS, "y": ROWS[:, 0]}, ids=[f"id {row}" for row in range(9)])
    assert "a.cvc.sidecars.json" in contents(tmp_path)
    add_column(target, "z", ROWS[:, 1])
    with pv.open(target) as found:
        assert "z" in found.columns and found.ids is not None
    pack_cvc(ROWS, target)
    with pv.open(target) as found:
        assert found.ids is None
    assert contents(tmp_path).keys() == {"a.cvc"}


# -- two at once


def _write_often(target: Path, numbers: range) -> None:
    for number in numbers:
        write_set(target, number, ids=bool(number % 3))


def test_two_writers_and_a_reader_never_mix(tmp_path: Path) -> None:
    target = tmp_path / "a.fbin"
    write_set(target, 100)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_often, args=(target, range(s, s + 60))) for s in (100, 201)]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        with contextlib.suppress(Replaced):  # a busy machine may not open the file between two commits
            assert read_set(target) >= 100
            reads += 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert read_set(target) in (159, 260) and reads
    assert not [name for name in contents(tmp_path) if name.startswith(".")]


def test_an_edit_of_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    from polyvec.core.sidecars import keep_sidecars

    target = tmp_path / "a.fbin"
    write_set(target, 1)
    with open_source(target) as source, pytest.raises(InputError, match="meanwhile"), open_sink(target) as sink:
        sink.write(target.read_bytes())
        keep_sidecars(sink, source)
        write_set(target, 2)
    assert read_set(target) == 2


def test_what_is_complete_is_asked_of_the_disk(tmp_path: Path) -> None:
    from polyvec.core.folders import FolderSink

    forget_outputs()
    with open_sink(tmp_path / "state", working=True) as sink:
        sink.write(b"1")
    assert changed_outputs() == []
    write_set(tmp_path / "a.fbin", 1)
    assert changed_outputs() == [str(tmp_path / "a.fbin")]  # and not its sidecars
    with FolderSink(tmp_path / "site", ours=lambda name: True, last="index") as folder:
        (folder.path / "index").write_bytes(b"x")
        assert str(tmp_path / "site") not in changed_outputs()
    assert str(tmp_path / "site") in changed_outputs()
    with pytest.raises(RuntimeError), open_sink(tmp_path / "a.fbin") as sink:
        raise RuntimeError
    (tmp_path / "a.fbin").unlink()
    assert str(tmp_path / "a.fbin") not in changed_outputs()


def test_a_file_that_grows_while_it_is_opened_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.npy"
    pv.write(target, ROWS)
    plain = origins.attach_sidecars

    def growing(*arguments: Any) -> None:
        plain(*arguments)
        with target.open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(origins, "attach_sidecars", growing)
    with pv.open(target) as found:
        assert found.rows == 9


def _split_often(source: Path, target: Path, parts: list[int]) -> None:
    for count in parts:
        pv.split(source, target, parts=count, durable=False)


def test_two_splits_and_a_reader_never_mix(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in (0, 50):
        rows = np.arange(8, dtype=np.float32).repeat(3).reshape(8, 3) + number
        pv.write(tmp_path / f"{number}.fbin", rows, ids=[number + row for row in range(8)])
    _split_often(tmp_path / "0.fbin", folder / "s.fbin", [3])
    context = multiprocessing.get_context("fork")
    plans = {0: [2, 4, 3] * 6, 50: [3, 2, 5] * 6}
    writers = [
        context.Process(target=_split_often, args=(tmp_path / f"{number}.fbin", folder / "s.fbin", parts))
        for number, parts in plans.items()
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of attempts that were given up
                with pv.open(str(folder / "s-*.fbin")) as found:
                    values, ids = found.vectors[:][:, 0], found.ids.to_numpy()
        except Replaced:
            continue  # a busy machine may not open them all between two commits
        assert values.tolist() == ids.tolist() and ids.tolist() in (list(range(8)), list(range(50, 58)))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert not [name for name in contents(folder) if name.startswith(".")]


def test_a_target_that_appears_meanwhile_is_not_replaced_unasked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists"), open_sink(tmp_path / "a", overwrite=False) as sink:
        sink.write(b"mine")
        (tmp_path / "a").write_bytes(b"theirs")
    assert contents(tmp_path) == {"a": b"theirs"}


def test_a_shard_that_was_listed_and_is_gone_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pv.write(tmp_path / "all.fbin", ROWS)
    pv.split(tmp_path / "all.fbin", tmp_path / "s.fbin", parts=3)
    plain, gone = opening.open_source, tmp_path / "away"
    first = tmp_path / "s-00000-of-00003.fbin"

    def opened(where: Any) -> Source:
        if not gone.exists():
            first.rename(gone)  # another writer takes it away, and puts it back before anybody looks
            try:
                return plain(where)
            finally:
                gone.with_suffix(".copy").write_bytes(gone.read_bytes())
                gone.with_suffix(".copy").rename(first)
        return plain(where)

    monkeypatch.setattr(opening, "open_source", opened)
    with pv.open(str(tmp_path / "s-*.fbin")) as found:
        assert found.rows == 9


def test_a_file_that_is_renamed_at_this_very_moment_is_still_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"new")
    meant = iter([tmp_path / "its temporary name"] * 2)
    monkeypatch.setattr(journal, "locate", lambda path: next(meant, path))
    assert journal.is_file(target)
