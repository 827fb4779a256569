"""Files of this machine: what is on disk after a commit, an abort, a kill."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from polyvec.core.commits import create_temp, sweep
from polyvec.core.errors import InputError, Truncated
from polyvec.core.journal import JOURNAL, TEMP_SUFFIX
from polyvec.core.targets import check_target, open_sink
from polyvec.testing.atomicity import contents
from polyvec.testing.descriptors import no_descriptors_left


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_is_seen_before_commit_and_all_of_it_after(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    with open_sink(target) as sink:
        assert sink.write(b"abc") == 0
        assert sink.write(np.arange(2, dtype="<u2")) == 3
        assert not target.exists()
    assert target.read_bytes() == b"abc\0\0\1\0"
    assert names(tmp_path) == ["a.bin"]


def test_an_error_leaves_no_trace(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError), open_sink(target) as sink:
        sink.write(b"new")
        sink.sibling("a.bin.words.txt").write(b"x")
        raise RuntimeError
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_siblings_are_committed_at_one_moment_with_the_main_file(tmp_path: Path) -> None:
    order = []
    replace = os.replace
    spy = mock.patch.object(os, "replace", side_effect=lambda a, b: (order.append(Path(b).name), replace(a, b)))
    with spy, open_sink(tmp_path / "main") as sink:
        sink.write(b"1")
        sink.sibling("main.words.txt").write(b"2")
        sink.sibling("main.ids.txt").write(b"3")
    assert order == [JOURNAL, "main.words.txt", "main.ids.txt", "main"]
    assert names(tmp_path) == ["main", "main.ids.txt", "main.words.txt"]


def test_stale_siblings_go_and_inputs_stay(tmp_path: Path) -> None:
    for name in ("a", "a.words", "a.ids"):
        (tmp_path / name).write_bytes(b"old")
    with open_sink(tmp_path / "a") as sink:
        sink.discard(["a.words", "a.ids", "a.none"])
        sink.sibling("a.ids").write(b"new")
    assert names(tmp_path) == ["a", "a.ids"]
    assert (tmp_path / "a.ids").read_bytes() == b"new"
    with pytest.raises(InputError, match="input"), open_sink(tmp_path / "a", inputs=[tmp_path / "a.ids"]) as sink:
        sink.discard(["a.ids"])
    assert names(tmp_path) == ["a", "a.ids"]


def test_a_target_whose_digest_is_an_input_is_refused_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "a.sha256").write_bytes(b"old")
    with no_descriptors_left(), pytest.raises(InputError, match="input"):
        open_sink(tmp_path / "a", inputs=[tmp_path / "a.sha256"])
    assert names(tmp_path) == ["a.sha256"]


def test_a_commit_is_synced_file_first_then_folder(tmp_path: Path) -> None:
    kinds = []
    fsync = os.fsync
    with mock.patch.object(os, "fsync", side_effect=lambda fd: (kinds.append(os.fstat(fd).st_mode), fsync(fd))):
        with open_sink(tmp_path / "a") as sink:
            sink.write(b"1")
        assert [stat.S_ISDIR(mode) for mode in kinds] == [False, True]
        with open_sink(tmp_path / "b", durable=False) as sink:
            sink.write(b"1")
    assert len(kinds) == 2


def test_a_failing_fsync_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    broken = mock.patch.object(os, "fsync", side_effect=OSError(5, "I/O error"))
    with broken, pytest.raises(OSError, match="I/O"), open_sink(tmp_path / "a") as sink:
        sink.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"old" and names(tmp_path) == ["a"]


def test_the_mode_follows_the_umask_or_the_old_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with open_sink(tmp_path / "a") as sink:
            sink.write(b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    (tmp_path / "a").chmod(0o604)
    with open_sink(tmp_path / "a") as sink:
        sink.write(b"2")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o604


def test_targets_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    for target, options, words in [
        (tmp_path, {}, "directory"),
        (tmp_path / "no" / "a", {}, "does not exist"),
        (tmp_path / "there", {"overwrite": False}, "--force"),
        (tmp_path / "there", {"inputs": [tmp_path / "there"]}, "also an input"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            open_sink(target, **options)
        assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["there"]


def test_a_folder_that_may_be_written_and_not_listed_is_written(tmp_path: Path) -> None:
    denied = PermissionError(13, "Permission denied", str(tmp_path))
    with mock.patch.object(os, "scandir", side_effect=denied), open_sink(tmp_path / "x.bin") as sink:
        sink.write(b"new")
        sink.sibling("x.bin.ids").write(b"too")
    assert contents(tmp_path) == {"x.bin": b"new", "x.bin.ids": b"too"}


def test_a_living_writers_file_is_not_swept(tmp_path: Path) -> None:
    target = tmp_path / "a[1]*.bin"
    dead = tmp_path / f".{target.name}.0badf00d{TEMP_SUFFIX}"
    other = tmp_path / f".another.bin.0badf00d{TEMP_SUFFIX}"
    dead.write_bytes(b"left by a kill")
    other.write_bytes(b"of another target")
    first = open_sink(target)
    assert not dead.exists() and other.exists()
    second = open_sink(target)
    assert sweep(target) == []
    for sink in (first, second):
        sink.write(b"whole")
        sink.commit()
    assert names(tmp_path) == sorted([target.name, other.name])


def test_errors_name_the_target_and_never_the_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "out.h5"

    def said(make: Callable[[str], BaseException]) -> str:
        with pytest.raises(BaseException) as caught, open_sink(target) as sink:
            beside = sink.sibling("out.h5.ids.txt")
            names = str(sink.written().temp), str(beside.written().temp)
            raise make(names[0]) from make(names[1])
        cause = caught.value.__cause__
        assert names[0] not in f"{caught.value} {caught.value!r}" and "polyvec-tmp" not in str(caught.value)
        assert "polyvec-tmp" not in str(cause) and "out.h5.ids.txt" in str(cause)
        return str(caught.value)

    assert str(target) in said(lambda temp: OSError(5, "Input/output error", temp))
    assert f"{target} -> {target}" in said(lambda temp: OSError(5, "failed", temp, None, temp)).replace("'", "")
    assert "unable to open file (out.h5)" in said(lambda temp: OSError(f"unable to open file ({Path(temp).name})"))
    assert str(target) in said(lambda temp: RuntimeError(f"cannot write {temp}"))
    assert str(target) in said(lambda temp: Truncated(f"short {temp}", path=temp))
    with pytest.raises(OSError) as caught, open_sink(target):
        raise OSError(2, "plain")
    assert str(caught.value) == "[Errno 2] plain"


def test_a_folder_that_takes_no_file_is_told_by_the_targets_name(tmp_path: Path) -> None:
    target = tmp_path / "out.fbin"
    denied = PermissionError(13, "Permission denied", "?")
    with mock.patch.object(os, "open", side_effect=denied), pytest.raises(PermissionError) as caught:
        create_temp(target)
    assert caught.value.filename == str(target)


@pytest.mark.parametrize("look", [1, 2, 3])
def test_a_target_that_goes_while_it_is_looked_at_is_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"x")
    plain = os.stat
    looks = 0

    def going(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        nonlocal looks
        found = plain(path, *arguments, **options)
        if os.fspath(path) == os.fspath(target):
            looks += 1
            if looks == look:
                target.unlink()  # another writer's commit removes it
        return found

    monkeypatch.setattr(os, "stat", going)
    check_target(target)
