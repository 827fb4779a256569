"""Through every format of the field and back; two readers at once; readers in threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors

NEEDS = {"h5": "h5py", "hdf5": "h5py", "parquet": "pyarrow", "arrow": "pyarrow", "arrows": "pyarrow"}
TARGETS = ["hdf5", "parquet", "arrow", "arrows", "safetensors", "npz", "csr", "fvecs", "npy", "cvc"]
ROWS = vectors(500, 12)


def written(folder: Path, suffix: str, **options: object) -> Path:
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix])
    path = folder / f"x.{suffix}"
    if suffix == "deflated.npz":
        np.savez_compressed(path, vectors=ROWS)
    else:
        pv.write(path, ROWS, ids=range(500), **options)
    return path


@pytest.mark.parametrize("suffix", TARGETS)
def test_there_and_back_is_exact_with_ids_and_records(tmp_path: Path, suffix: str) -> None:
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix])
    records = [{"n": i, "t": f"ü{i}", "maybe": None if i % 2 else [i]} for i in range(500)]
    pv.write(
        tmp_path / "a.fbin", ROWS, ids=[f"id {i}" for i in range(500)], records=records, metadata={"m": {"k": 1.5}}
    )
    pv.convert(tmp_path / "a.fbin", tmp_path / f"b.{suffix}")
    pv.convert(tmp_path / f"b.{suffix}", tmp_path / "c.fbin", column="vectors")
    assert (tmp_path / "a.fbin").read_bytes() == (tmp_path / "c.fbin").read_bytes()
    with pv.open(tmp_path / "c.fbin") as c:
        assert list(c.ids) == [f"id {i}" for i in range(500)]
        assert [dict(r) for r in c.records] == records
        assert c.metadata["m"] == {"k": 1.5}


READERS = ["parquet", "arrow", "arrows", "deflated.npz", "h5", "fvecs", "csr"]


@pytest.mark.parametrize("suffix", READERS)
def test_two_readers_that_take_turns_do_not_disturb_each_other(tmp_path: Path, suffix: str) -> None:
    with pv.open(written(tmp_path, suffix)) as c:
        one, two = c.vectors.blocks(7), c.vectors.blocks(31, start=100)
        for _ in range(12):
            for block in (next(one), next(two)):
                assert np.array_equal(block.decode(), ROWS[block.start : block.start + block.rows])
            assert np.array_equal(c.vectors[3], ROWS[3])


@pytest.mark.parametrize("suffix", READERS)
def test_readers_in_threads_get_the_right_rows(tmp_path: Path, suffix: str) -> None:
    wrong: list[object] = []
    with pv.open(written(tmp_path, suffix)) as c:

        def read(seed: int) -> None:
            try:
                for row in np.random.default_rng(seed).integers(0, 480, 15).tolist():
                    if not np.array_equal(c.vectors[row : row + 20], ROWS[row : row + 20]):
                        wrong.append(row)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
