"""The code path and the thread count follow the environment, in a fresh process and in this one."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import polyvec
from polyvec import kernels
from polyvec.kernels import paths, threads

SHOW = "from polyvec import kernels as k; print(k.NATIVE, k.cpu_path(), k.default_threads())"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(polyvec.__file__).parents[1])
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POLYVEC_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_native_means_numpy() -> None:
    assert python(SHOW, POLYVEC_NO_NATIVE="1", POLYVEC_THREADS="3").stdout.split() == ["False", "numpy", "3"]


@pytest.mark.parametrize("path", kernels.available_paths())
def test_polyvec_cpu_names_the_path(path: str) -> None:
    done = python(SHOW + "; import numpy as n; print(k.f16_to_f32(n.ones(5, 'f2')).sum())", POLYVEC_CPU=path)
    assert done.stdout.split()[1] == path, done.stderr
    assert done.stdout.split()[-1] == "5.0"


def test_an_unknown_path_is_an_error_naming_the_known_ones() -> None:
    for environment in ({"POLYVEC_CPU": "sse9"}, {"POLYVEC_CPU": "sse9", "POLYVEC_NO_NATIVE": "1"}):
        done = python(SHOW, **environment)
        assert done.returncode != 0
        assert "unknown CPU path 'sse9': expected one of avx512" in done.stderr.splitlines()[-1]


def test_a_path_that_is_not_there_is_an_error_naming_the_available_ones() -> None:
    missing = sorted(set(paths.PATHS) - set(kernels.available_paths()))
    assert missing  # no machine has both AVX and NEON
    before = kernels.cpu_path()
    with pytest.raises(ValueError, match=r"available: .*numpy"), kernels.use_path(missing[0]):
        pass
    assert kernels.cpu_path() == before


def test_use_path_ends_with_its_block() -> None:
    before = kernels.cpu_path()
    with pytest.raises(RuntimeError, match="stop"), kernels.use_path("numpy"):
        assert kernels.cpu_path() == "numpy"
        raise RuntimeError("stop")
    assert kernels.cpu_path() == before


def test_a_missing_compiled_module_leaves_numpy() -> None:
    code = "import sys; sys.modules['polyvec._native'] = None\n" + SHOW
    assert python(code).stdout.split()[:2] == ["False", "numpy"]


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", "²"])
def test_bad_thread_counts_are_errors(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYVEC_THREADS", asked)
    with pytest.raises(ValueError, match="POLYVEC_THREADS"):
        kernels.default_threads()


def test_default_threads_are_the_cores_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYVEC_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert kernels.default_threads() == 3
    with pytest.raises(ValueError, match="num_threads is 0"):
        threads.resolve_threads(0)


def test_casts_from_many_python_threads_do_not_disturb_each_other() -> None:
    sources = [np.random.default_rng(i).normal(size=400_000).astype(np.float16) for i in range(6)]
    decoded: dict[int, np.ndarray] = {}

    def decode(i: int) -> None:
        decoded[i] = kernels.f16_to_f32(sources[i], num_threads=2)

    workers = [threading.Thread(target=decode, args=(i,)) for i in range(len(sources))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for i, source in enumerate(sources):
        assert np.array_equal(decoded[i], source.astype(np.float32))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_kernels_work_after_a_fork() -> None:
    code = (
        "import os, numpy as np; from polyvec import kernels as k\n"
        "x = np.ones(1 << 20, np.float16); k.f16_to_f32(x, num_threads=4)\n"
        "pid = os.fork()\n"
        "assert k.f16_to_f32(x, num_threads=4).sum() == 1 << 20\n"
        "if pid == 0: os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7; print('both')"
    )
    done = python(code)
    assert done.stdout.strip() == "both", done.stderr


def test_a_path_chosen_in_one_thread_is_not_seen_in_another() -> None:
    usual, met, seen = kernels.cpu_path(), threading.Barrier(2, timeout=60), {}

    def work(name: str) -> None:
        with kernels.use_path(name):
            met.wait()  # both have chosen
            seen[name] = kernels.cpu_path(), paths.native() is None
            met.wait()  # neither has ended
        seen[f"after {name}"] = kernels.cpu_path(), paths.native() is None

    workers = [threading.Thread(target=work, args=(name,)) for name in ("numpy", kernels.available_paths()[0])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    first = kernels.available_paths()[0]
    assert seen.pop("numpy") == ("numpy", True)
    if first in seen:
        assert seen.pop(first) == (first, False)
    assert set(seen.values()) == {(usual, usual == "numpy")}
    assert kernels.cpu_path() == usual


@pytest.mark.skipif(not kernels.NATIVE, reason="no compiled module")
@pytest.mark.parametrize("name", [name for name in kernels.available_paths() if name != "numpy"])
def test_the_compiled_module_runs_on_the_path_of_the_calling_context(name: str) -> None:
    module, usual = paths.native(), kernels.cpu_path()
    assert module is not None
    chosen = contextvars.copy_context()
    with kernels.use_path(name):
        assert module.cpu_path() == name
        chosen = contextvars.copy_context()
    assert module.cpu_path() == usual
    assert chosen.run(module.cpu_path) == name  # a task or a thread of that context


def test_two_blocks_that_overlap_leave_the_path_as_it_was() -> None:
    usual = kernels.cpu_path()
    contexts = [contextvars.copy_context() for _ in range(2)]
    blocks = [kernels.use_path("numpy") for _ in range(2)]
    for context, block in zip(contexts, blocks, strict=True):
        context.run(block.__enter__)
    for context, block in zip(contexts, blocks, strict=True):  # the first to come is the first to go
        context.run(block.__exit__, None, None, None)
        assert kernels.cpu_path() == usual
    assert [context.run(kernels.cpu_path) for context in contexts] == [usual, usual]
