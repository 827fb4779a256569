"""Kill a job that writes a folder at every moment at which it touches the file system, and look at what is left.

``python killing.py JOB FOLDER exchange|aside``; a script, so that it forks from a process without threads.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import polyvec.browser
import polyvec.model.huggingface
import polyvec.model.tokenizer
import polyvec.web.publish
from polyvec.core import folders
from polyvec.core.collection import Collection

NAMES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod"}
EVENTS = {"plain": {"open", *NAMES}, "export": {"open", *NAMES}, "model": NAMES, "site": NAMES}
KILLED = 77
FOREIGN = {"CNAME": b"example.org", "data/mine/notes.txt": b"mine"}

Snapshot = dict[str, bytes] | None


def write_plain(target: Path, version: int, model: Path) -> None:
    with folders.FolderSink(target, ours=lambda name: name.startswith("part"), last="part0") as sink:
        for part in range(3):
            sink.put(f"part{part}/x" if part else "part0", [bytes([version]) * 9])


def write_site(target: Path, version: int, model: Path) -> None:
    rows = np.random.default_rng(version).standard_normal((5 + 300 * version, 4)).astype(np.float32)
    polyvec.web.publish.publish(Collection.from_arrays(rows), target, title=str(version), overwrite=True)


def write_model(target: Path, version: int, model: Path) -> None:
    polyvec.model.huggingface.export_model(model / f"{version}.weights", target, overwrite=True)


def write_export(target: Path, version: int, model: Path) -> None:
    card = {"name": str(version), "set": "s", "image_url": "", "card_url": ""}
    rows = np.eye(512, dtype=np.float32)[: 1 + version]
    polyvec.browser.export_for_browser(rows, target, records=[card] * len(rows), timestamp="now")


JOBS = {"plain": write_plain, "site": write_site, "model": write_model, "export": write_export}


def forked(act: Callable[[], None]) -> int:
    """Run in a child; its exit status."""
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(moment: int, home: Path, events: set[str], exchanges: bool) -> None:
    """Let this process end just before it touches something below ``home`` for the ``moment``-th time."""
    count = 0

    def tick(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in events and any(str(a).startswith(str(home)) for a in arguments[:2] if isinstance(a, (str, Path))):
            count += 1
            if count == moment:
                os._exit(KILLED)

    real = folders.exchange

    def exchange(one: Path, other: Path) -> bool:
        tick("os.rename", (one, other))
        return exchanges and real(one, other)

    folders.exchange = exchange
    sys.addaudithook(tick)


def look(folder: Path) -> Snapshot:
    """Everything in a folder; None where there is none."""
    if not folder.exists():
        return None
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main(name: str, home: Path, exchanges: bool) -> None:
    job, model = JOBS[name], home / "models"
    os.fsync = lambda fd: None  # a kill, unlike a power cut, loses nothing that was written
    before = home / "before"
    assert forked(lambda: job(before, 0, model)) == 0
    for file, data in FOREIGN.items():
        (before / file).parent.mkdir(parents=True, exist_ok=True)
        (before / file).write_bytes(data)
    assert forked(lambda: job(home / "after", 1, model)) == 0
    plain = look(home / "after")
    assert plain is not None
    for old, new in ((None, plain), (look(before), {**plain, **FOREIGN})):
        seen: list[Snapshot] = []
        moment = 0
        while True:
            moment += 1
            here = home / "here"
            here.mkdir()
            if old is not None:
                shutil.copytree(before, here / "out")

            def act(moment: int = moment, here: Path = here) -> None:
                killed_at(moment, here, EVENTS[name], exchanges)
                job(here / "out", 1, model)

            status = forked(act)
            assert status in (0, KILLED), f"moment {moment}: status {status}"
            folders.recover(here / "out")
            seen.append(look(here / "out"))
            assert seen[-1] in (old, new), f"moment {moment}: neither the old folder nor the new one is whole"
            if status == 0 or moment % 9 == 0:  # the next run sweeps, and loses nothing
                assert forked(lambda here=here: job(here / "out", 1, model)) == 0
                assert look(here / "out") == new, f"moment {moment}: the next run did not finish the work"
                assert [path.name for path in here.iterdir()] == ["out"], f"moment {moment}: {list(here.iterdir())}"
            shutil.rmtree(here)
            if status == 0:
                break
        assert old in seen and new in (seen if old is None else seen[:-1]), "the kills missed the moment of change"
        assert seen == sorted(seen, key=lambda found: found == new), "a new folder became an old one again"
        print(len(seen))


def run(name: str, home: Path, how: str) -> None:
    """Do all this in a process of its own; an AssertionError says what went wrong."""
    done = subprocess.run(
        [sys.executable, __file__, name, str(home), how],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert all(int(line) > 5 for line in done.stdout.split()) and len(done.stdout.split()) == 2


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "exchange")
