"""Sinks: what is on disk after a commit, an abort, a kill."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from polyvec.core.commits import create_temp, sweep
from polyvec.core.errors import InputError, Truncated
from polyvec.core.hashing import HASH_STEP
from polyvec.core.journal import JOURNAL, TEMP_SUFFIX
from polyvec.core.sources import open_source
from polyvec.core.targets import check_target, open_sink
from polyvec.kernels.filecasts import Cast
from polyvec.testing.atomicity import contents


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


def test_a_reserved_header_is_written_last(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a.bin") as sink:
        assert sink.write(b"magic") == 0
        assert sink.reserve(4) == 5
        assert sink.write(b"rows") == 9
        assert sink.align(8) == 16
        sink.write_at(5, b"HEAD")
        for offset in (-1, 14):
            with pytest.raises(ValueError, match="outside"):
                sink.write_at(offset, b"too far")
    assert (tmp_path / "a.bin").read_bytes() == b"magicHEADrows\0\0\0"


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("size", [0, 10, 3 * HASH_STEP + 7])
def test_the_digest_is_that_of_the_finished_file(tmp_path: Path, reserved: bool, size: int) -> None:
    with open_sink(tmp_path / "a.bin", sha256=True, durable=False) as sink:
        if reserved:
            sink.reserve(8)
        for piece in range(3):
            sink.write(bytes([piece]) * (size // 3))
        if reserved:
            sink.write_at(0, b"finished")
    assert sink.hexdigest() == hashlib.sha256((tmp_path / "a.bin").read_bytes()).hexdigest()


def test_a_rewrite_of_hashed_bytes_is_in_the_digest(tmp_path: Path) -> None:
    with open_sink(tmp_path / "a.bin", sha256=True, durable=False) as sink:
        sink.write(b"a" * (4 * HASH_STEP))
        sink.write_at(0, b"b")
        sink.write(b"c" * HASH_STEP)
    assert sink.hexdigest() == hashlib.sha256((tmp_path / "a.bin").read_bytes()).hexdigest()


@pytest.mark.parametrize("fault", ["mapping", "no thread"])
def test_the_digest_is_right_when_its_thread_fails(tmp_path: Path, fault: str) -> None:
    broken = (
        mock.patch("polyvec.core.hashing.mmap.mmap", side_effect=OSError(12, "Cannot allocate memory"))
        if fault == "mapping"
        else mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread"))
    )
    with broken, open_sink(tmp_path / "a.bin", sha256=True, durable=False) as sink:
        for _ in range(3):
            sink.write(b"a" * (2 * HASH_STEP))
    assert sink.hexdigest() == hashlib.sha256((tmp_path / "a.bin").read_bytes()).hexdigest()


def test_a_digest_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"old")
    broken = mock.patch("polyvec.core.hashing.mmap.mmap", side_effect=OSError(5, "Input/output error"))
    unread = mock.patch("polyvec.core.hashing.os.pread", side_effect=OSError(5, "Input/output error"))
    with (
        pytest.raises(OSError, match="Input/output"),
        broken,
        unread,
        open_sink(tmp_path / "a.bin", sha256=True) as sink,
    ):
        sink.write(b"a" * (2 * HASH_STEP))
    assert (tmp_path / "a.bin").read_bytes() == b"old" and names(tmp_path) == ["a.bin"]


def test_a_range_of_a_source_is_copied(tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(100_000)
    (tmp_path / "in").write_bytes(data)
    for make in (lambda: open_source(tmp_path / "in"), lambda: open_source(data)):
        with make() as source, open_sink(tmp_path / "out") as sink:
            sink.write(b"head")
            sink.copy_from(source, 5, 90_000)
        assert (tmp_path / "out").read_bytes() == b"head" + data[5:90_005]


def test_a_copy_works_where_the_kernel_cannot(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"0123456789")
    broken = mock.patch.object(os, "copy_file_range", side_effect=OSError(38, "not here"))
    with broken, open_source(tmp_path / "in") as source, open_sink(tmp_path / "out") as sink:
        sink.copy_from(source, 2, 6)
    assert (tmp_path / "out").read_bytes() == b"234567"


def test_a_source_that_shrank_is_truncated_and_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(1000))
    with open_source(tmp_path / "in") as source, pytest.raises(Truncated), open_sink(tmp_path / "out") as sink:
        os.truncate(tmp_path / "in", 10)
        sink.copy_from(source, 0, 1000)
    assert names(tmp_path) == ["in"]


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


def test_standard_output_gets_the_whole_file_at_commit(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_sink("-") as sink:
        sink.reserve(4)
        sink.write(b"body")
        sink.write_at(0, b"head")
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == b""
        with pytest.raises(InputError, match="standard output"):
            sink.sibling("x")
    assert capfdbinary.readouterr().out == b"headbody"


def test_codes_stay_within_what_was_reserved(tmp_path: Path) -> None:
    with open_sink(tmp_path / "out", durable=False) as sink:
        at = sink.reserve(20)
        values = np.linspace(-1, 1, 10, dtype=np.float32)
        assert sink.write_cast(at, values, Cast("f16")) == (zlib.crc32(values.astype("<f2").tobytes()), True)
        with pytest.raises(ValueError, match="outside what was written"):
            sink.write_cast(at + 1, values, Cast("f16"))
    assert (tmp_path / "out").read_bytes() == values.astype("<f2").tobytes()


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
