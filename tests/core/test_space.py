"""Room on the disk is asked for before the work, not found wanting after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.core import space
from polyvec.core.errors import FormatWarning
from polyvec.model.corpus import count_texts, open_corpus
from polyvec.neighbors.truth import write_truth
from polyvec.testing.atomicity import contents
from polyvec.writing.options import Writing
from polyvec.writing.road import estimate

MB = 1_000_000


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of 4 MB."""
    pv.write(tmp_path / "a.fbin", np.random.default_rng(0).standard_normal((10_000, 100)).astype(np.float32))
    return tmp_path / "a.fbin"


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    def leave(size: int | None) -> None:
        monkeypatch.setattr(space, "free_bytes", lambda folder: size)

    return leave


JOBS = {
    "convert": lambda a, **options: pv.convert(a, a.with_name("o.npy"), **options),
    "resume": lambda a, **options: pv.convert(a, a.with_name("o.npy"), resume=True, **options),
    "merge": lambda a, **options: pv.merge([a], a.with_name("o.npy"), **options),
    "split": lambda a, **options: pv.split(a, a.with_name("o.npy"), parts=5, **options),
    "sample": lambda a, **options: pv.sample(a, a.with_name("o.npy"), head=9_000, **options),
    "dry run": lambda a, **options: pv.convert(a, a.with_name("o.npy"), dry_run=True, **options),
    "truth": lambda a, **options: write_truth(a, a, a.with_name("o.ibin"), k=20, metric="l2", **options),
}


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_does_not_fit_is_refused_before_it_starts(large: Path, free: Any, job: str) -> None:
    before = contents(large.parent)
    free(2 * MB)
    with pytest.raises(pv.InputError, match=r"about .* will be written and 2\.0 MB are free in /.*--force") as caught:
        JOBS[job](large)
    assert "\n" not in str(caught.value) and "o" in str(caught.value).split(":")[0]
    assert contents(large.parent) == before
    if job != "truth":
        free(None)  # a file system that does not say
        JOBS[job](large)


def test_told_to_go_on_it_warns_and_does(large: Path, free: Any) -> None:
    free(2 * MB)
    with pytest.warns(FormatWarning, match="are free in .*going on as asked"):
        pv.convert(large, large.with_name("o.npy"), check_space=False)
    assert large.with_name("o.npy").stat().st_size > 4 * MB


def test_parts_need_the_room_twice(large: Path, free: Any) -> None:
    free(5 * MB)
    pv.convert(large, large.with_name("once.npy"))
    with pytest.raises(pv.InputError, match=r"about 8\.0 MB"):
        pv.convert(large, large.with_name("o.npy"), resume=True)
    free(9 * MB)
    pv.convert(large, large.with_name("o.npy"), resume=True)


@pytest.mark.parametrize(
    "name, options",
    [
        ("o.fbin", {}),
        ("o.npy", {"encoding": "float16"}),
        ("o.f16bin", {}),
        ("o.cvc", {}),
        ("o.cvc", {"encoding": "int8"}),
        ("o.cvc", {"encoding": "lossless"}),
        ("o.vec", {}),
        ("o.fifu", {}),
        ("o.safetensors", {"encoding": "bfloat16"}),
        ("o.hdf5", {"compression": "gzip"}),
        ("o.parquet", {}),
    ],
)
def test_the_estimate_is_below_what_is_written_and_not_far(
    large: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    if name.endswith((".hdf5", ".parquet")):
        pytest.importorskip({".hdf5": "h5py"}.get(Path(name).suffix, "pyarrow"))
    told: list[int] = []
    monkeypatch.setattr("polyvec.writing.road.demand_space", lambda path, needed, **_: told.append(needed))
    with pv.open(large) as source:
        rows = source.vectors[:]
    made = pv.write(
        large.with_name(name),
        rows,
        ids=[f"item {i}" for i in range(10_000)],
        vocab=[f"w{i}" for i in range(10_000)],
        **options,
    )
    total = sum(path.stat().st_size for path in large.parent.iterdir() if path.name.startswith("o."))
    assert made.rows == 10_000 and 0.3 * total < told[0] <= total


def test_nothing_is_refused_for_a_format_that_refuses_by_itself(large: Path) -> None:
    with pv.open(large) as source:
        assert estimate("o.nothing", source, Writing()) == 0


def test_texts_are_counted_from_the_first_of_them(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(f'{{"text": "number {i:07d}"}}\n' for i in range(50_000)))
    assert count_texts(open_corpus(path)) == pytest.approx(50_000, rel=0.02)
    path.write_text('{"text": "one"}\n')
    assert count_texts(open_corpus(path)) == 1
    path.write_text("not json\n")
    assert count_texts(open_corpus(path)) == 0


def test_the_system_is_asked(tmp_path: Path) -> None:
    found = space.free_bytes(tmp_path)
    assert found is None or found > 0
    assert space.free_bytes(tmp_path / "nowhere") is None
