"""describe: what a file holds in words and numbers, from a bounded sample, without trusting a value."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.columns import ArrayColumn, ReaderColumn
from polyvec.testing import vectors
from polyvec.verbs import describe as module
from polyvec.verbs.describe import describe_column

ROWS = vectors(50, 4)


def test_a_column_is_told_by_its_values() -> None:
    told = describe_column(ArrayColumn("v", ROWS))
    norms = np.linalg.norm(ROWS.astype(np.float64), axis=1)
    assert (told.rows, told.shape, told.dtype, told.sampled) == (50, (50, 4), "float32", 50)
    assert (told.minimum, told.maximum) == (float(ROWS.min()), float(ROWS.max()))
    assert told.mean == pytest.approx(ROWS.astype(np.float64).mean())
    assert told.norm_min == pytest.approx(norms.min()) and told.norm_max == pytest.approx(norms.max())


def test_odd_rows_are_counted_and_do_not_spoil_the_rest() -> None:
    rows = ROWS.copy()
    rows[3, 1], rows[4, 0], rows[7] = np.nan, np.inf, 0
    told = describe_column(ArrayColumn("v", rows))
    assert (told.not_finite, told.zero_rows) == (2, 1) and told.norm_min == 0
    assert np.isfinite([told.minimum, told.maximum, told.mean, told.norm_max]).all()
    nothing = describe_column(ArrayColumn("v", np.full((3, 2), np.nan, np.float32)))
    assert nothing.not_finite == 3 and nothing.mean == 0


def test_the_sample_is_bounded_and_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def rows(start: int, stop: int) -> np.ndarray:
        read.append(stop - start)
        return np.zeros((stop - start, 4), np.float32)

    monkeypatch.setattr(module, "SAMPLE_ROWS", 10)
    column = ReaderColumn("v", (10**6, 4), np.dtype("f4"), rows)
    assert describe_column(column).sampled == 10 and sum(read) < 1000
    read.clear()
    assert describe_column(column, sample=False).sampled == 0 and read == []
    assert describe_column(ArrayColumn("v", ROWS[:0])).minimum is None


def test_a_file_is_told_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    path = tmp_path / "a.fbin"
    pv.write(path, ROWS, vocab=[str(n) for n in range(50)], ids=["x"] * 50, records=[{"k": 1}] * 50, durable=False)
    told = pv.describe(path, layout=True)
    assert (told.format, told.rows, told.dim, told.vocab, told.ids, told.records) == (
        "bins",
        50,
        4,
        50,
        "strings",
        ["k"],
    )
    assert sorted(told.sidecars) == [f"a.fbin.{what}" for what in ("ids.txt", "records.jsonl", "words.txt")]
    assert sum(span.size for span in told.layout) == told.bytes == path.stat().st_size
    json.dumps(told.to_dict())
    assert pv.describe(path).layout is None


def test_integers_under_a_float_suffix_are_suspected(tmp_path: Path) -> None:
    data = np.array([3, 2], "<u4").tobytes() + np.arange(1, 7, dtype="<i4").tobytes()
    (tmp_path / "a.fbin").write_bytes(data)
    assert any("try --from ibin" in warning for warning in pv.describe(tmp_path / "a.fbin").warnings)


def test_what_else_fits_is_told_by_the_bytes_and_not_by_the_name(tmp_path: Path) -> None:
    pv.write(tmp_path / "a.gt", np.arange(15, dtype=np.int32).reshape(3, 5))
    assert "fbin: size = 8 + 3 x 5 x 4" in pv.describe(tmp_path / "a.gt").also_fits
    np.save(tmp_path / "b.npy", vectors(3, 4))
    (tmp_path / "b.npy").rename(tmp_path / "b.fbin")
    found = pv.describe(tmp_path / "b.fbin")
    assert (found.format, found.rows, found.also_fits) == ("npy", 3, ())
