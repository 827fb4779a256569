"""Folders as outputs: whole at every moment, one writer at a time, and nothing of the user's is ever lost."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest

from polyvec.core import folders
from polyvec.core.commits import changed_outputs, forget_outputs
from polyvec.core.errors import InputError
from polyvec.core.folders import FolderSink, recover

sys.path.insert(0, str(Path(__file__).parent))
import killing


def write(target: Path, text: str, *, more: str = "", **options: bool) -> None:
    with FolderSink(target, ours=lambda name: name in ("a", "b/c"), last="a", **options) as sink:
        sink.put("a", [text.encode()])
        sink.put(more or "b/c", [b"x"])


@pytest.fixture(params=["exchange", "aside"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernel's exchange, and as on file systems that have none."""
    if request.param == "aside":
        monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    return request.param


@pytest.mark.parametrize(
    ("job", "way"), [("plain", "exchange"), ("plain", "aside"), ("export", "exchange"), ("site", "exchange")]
)
def test_a_kill_at_any_moment_leaves_the_old_folder_or_the_new_one(tmp_path: Path, job: str, way: str):
    killing.run(job, tmp_path, way)


def test_what_is_not_ours_is_carried_over(tmp_path: Path, how: str):
    out = tmp_path / "out"
    write(out, "old")
    out.chmod(0o750)
    (out / "CNAME").write_text("example.org")
    (out / "b" / "mine").write_text("mine")
    (out / "empty").mkdir()
    (out / "link").symlink_to("nowhere")
    (out / "folder").symlink_to(tmp_path)
    inode = (out / "CNAME").stat().st_ino
    write(out, "new", more="a2")
    assert (out / "a").read_text() == "new" and not (out / "b" / "c").exists()  # ours, and of the old one alone
    assert (out / "CNAME").stat().st_ino == inode and (out / "b" / "mine").read_text() == "mine"
    assert (out / "empty").is_dir() and (out / "link").readlink() == Path("nowhere") and (out / "folder").is_symlink()
    assert out.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    write(tmp_path / "out", "old")
    (tmp_path / "out" / "mine").write_text("mine")
    monkeypatch.setattr(os, "link", refuse)
    write(tmp_path / "out", "new")
    assert (tmp_path / "out" / "mine").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_a_file_that_comes_while_the_folder_is_replaced_is_not_lost(tmp_path: Path, how: str):
    out = tmp_path / "out"
    write(out, "old")
    real = folders._swap

    def late(new: Path, target: Path) -> Path | None:
        (out / "late").write_text("late")
        return real(new, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "_swap", late)
        write(out, "new")
    assert (out / "late").read_text() == "late" and (out / "a").read_text() == "new"


def test_of_two_writers_one_is_told_and_the_other_wins_whole(tmp_path: Path, how: str):
    out = tmp_path / "out"
    with FolderSink(out, ours=lambda name: name == "a", last="a") as sink:
        with pytest.raises(InputError, match=r"out: another run is writing this output"):
            write(out, "second")
        sink.put("a", [b"first"])
    assert (out / "a").read_text() == "first"
    told: list[str] = []

    def attempt(number: int) -> None:
        try:
            write(out, str(number) * 100)
            told.append("won")
        except InputError as error:
            told.append(str(error))

    threads = [threading.Thread(target=attempt, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "won" in told and all(t == "won" or "another run" in t or "another program" in t for t in told)
    assert len(set((out / "a").read_text())) == 1 and [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_replaced_by_another_program_meanwhile_is_left_alone(tmp_path: Path):
    out = tmp_path / "out"
    with (
        pytest.raises(InputError, match=r"out: another program replaced this folder meanwhile"),
        FolderSink(out, ours=lambda name: name == "a", last="a") as sink,
    ):
        sink.put("a", [b"mine"])
        out.mkdir()
        (out / "a").write_text("theirs")
    assert (out / "a").read_text() == "theirs" and len(list(tmp_path.iterdir())) == 1


def test_an_interrupt_after_the_moment_finds_the_folder_among_the_changed_outputs(tmp_path: Path, how: str):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    write(out, "old")
    for moment, text, named in (("_swap", "old", []), ("_retire", "new", [str(out)])):
        forget_outputs()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(folders, moment, stop)
            write(out, "new")
        assert changed_outputs() == named and (out / "a").read_text() == text


def test_what_a_kill_left_aside_comes_back(tmp_path: Path):
    write(tmp_path / "out", "old")
    (tmp_path / "out").rename(tmp_path / f".out.0123abcd{folders.OLD_SUFFIX}")
    recover(tmp_path / "nothing")
    recover(tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "old"
    recover(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
@pytest.mark.parametrize("ending", [folders.OLD_SUFFIX, folders.TEMP_SUFFIX])
def test_nobody_smuggles_files_into_a_folder_of_another_user(tmp_path: Path, ending: str):
    tmp_path.chmod(0o1777)
    theirs = tmp_path / f".out.0123abcd{ending}"
    theirs.mkdir()
    (theirs / "evil").write_text("x")
    os.chown(theirs, 4242, 4242)
    recover(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for text in ("old", "new"):
        write(tmp_path / "out", text)
    assert not (tmp_path / "out" / "evil").exists() and (theirs / "evil").exists()
    tmp_path.chmod(0o755)  # a folder of one's own: whoever put it there may write here
    write(tmp_path / "out", "newer")
    assert (tmp_path / "out" / "evil").exists() and not theirs.exists()


def test_a_name_as_long_as_the_system_allows_is_written(tmp_path: Path, how: str):
    out = tmp_path / ("n" * 255)
    for text in ("old", "new"):
        write(out, text)
        assert (out / "a").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_errors_name_the_target_and_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^out/x: bad$"), FolderSink("out", ours=bool, last="a") as sink:
        raise InputError(f"{sink.path}/x: bad")
    with pytest.raises(OSError) as found, FolderSink("out", ours=bool, last="a") as sink:
        sink.put("a", [b"x"])
        (sink.path / "a" / "b").open("rb")
    assert found.value.filename == "out/a/b"
    with pytest.raises(OSError) as found, FolderSink("out", ours=bool, last="a") as sink:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert found.value.filename == "out"
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError) as found:
        FolderSink("file/below", ours=bool, last="a")
    assert found.value.filename == "file/below"
    with pytest.raises(InputError, match=r"^file: the output must be a folder"):
        FolderSink("file", ours=bool, last="a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_folder_one_stands_in_is_filled_but_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("mine")
    write(Path(), "first")
    with pytest.raises(
        InputError, match=r"^\.: this command runs inside it, so what it holds cannot be replaced whole"
    ):
        write(Path(), "second")
    write(Path(), "third", in_place=True, more="a2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a2", "b", "mine"]
    assert (tmp_path / "a").read_text() == "third" and not list((tmp_path / "b").iterdir())
