"""The passes of a quality report: the queries, the rows that are searched, what is left out, and what is told on the way."""

from __future__ import annotations

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.columns import ArrayColumn
from polyvec.core.errors import InputError
from polyvec.neighbors.metric import Metric, choose_metric
from polyvec.reports import measuring as measuring_module
from polyvec.reports import runs as runs_module
from polyvec.reports import suggestion as suggestion_module
from polyvec.reports import trials as trials_module
from polyvec.reports.measuring import HELD_OUT, Job, ask, measure
from polyvec.reports.pages import quality_lead
from polyvec.reports.quality import measure_quality
from polyvec.reports.runs import spread_runs
from polyvec.reports.trials import choose_trials

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((20, 32))
ROWS = (CENTRES[RNG.integers(0, 20, 3000)] + 0.5 * RNG.standard_normal((3000, 32))).astype(np.float32)


def test_blocks_do_not_change_the_figures(monkeypatch):
    whole = measure_quality(ROWS, encodings=["int8-row", "bit"], sample_queries=30, k=[5])
    monkeypatch.setattr(runs_module, "RUN_ROWS", 300)
    pieces = measure_quality(ROWS, encodings=["int8-row", "bit"], sample_queries=30, k=[5])
    for a, b in zip(whole.entries, pieces.entries):
        assert (a.max_error, a.recalls) == (b.max_error, b.recalls)


def test_given_queries_are_not_held_out():
    found = measure_quality(ROWS, encodings=["float16"], queries=ROWS[:20], k=[1])
    assert found.measured_rows == 3000 and not found.held_out and found.entries[0].recall(1).recall > 0.9


def test_all_given_queries_are_used_or_how_many_is_said():
    queries = np.random.default_rng(5).standard_normal((1000, 32)).astype(np.float32)
    queries[500:] += 3  # the second half is of another kind
    found = measure_quality(ROWS, encodings=["bit"], queries=queries, k=[10])
    assert (found.queries, found.given_queries) == (1000, 1000) and "1,000 queries given" in quality_lead(found)[1]
    some = measure_quality(ROWS, encodings=["bit"], queries=queries, k=[10], sample_queries=500)
    assert "with 500 of 1,000 queries given, evenly spread" in quality_lead(some)[1]
    rows = np.linspace(0, 999, 500).astype(np.int64)
    same, first = (measure_quality(ROWS, encodings=["bit"], queries=queries[r], k=[10]) for r in (rows, slice(500)))
    assert some.entries[0].recalls == same.entries[0].recalls != first.entries[0].recalls


@pytest.mark.parametrize(("scale", "wanted"), [(1.0, "int8-chunk"), (1e-3, "int8-chunk")])
def test_chunks_are_those_of_the_file_that_convert_writes(tmp_path, monkeypatch, scale, wanted):
    rows = (ROWS * scale).astype(np.float32)
    rows[:1000] *= 30  # one range for all would lose the others
    for module in (trials_module, measuring_module, suggestion_module):
        monkeypatch.setattr(module, "CHUNK_ROWS", 1000)
    pv.write(tmp_path / "a.fbin", rows)
    tried = measure_quality(tmp_path / "a.fbin", encodings=["int8-chunk"], sample_queries=40, k=[10]).entries[0]
    pv.convert(tmp_path / "a.fbin", tmp_path / "a.cvc", encoding="int8", chunk_rows=1000)
    made = measure_quality(tmp_path / "a.fbin", tmp_path / "a.cvc", sample_queries=40, k=[10]).entries[0]
    assert (tried.max_error, tried.recalls) == (made.max_error, made.recalls)


def test_odd_rows_are_left_out_and_said():
    rows = ROWS.copy()
    rows[5, 3], rows[9] = np.nan, np.inf
    rows[11] = 0
    found = measure_quality(rows, encodings=["int8", "bit"], sample_queries=20, k=[1])
    assert found.skipped_rows == 2 and all(e.failed is None for e in found.entries)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
@pytest.mark.filterwarnings("error")
def test_rows_that_float32_cannot_hold_are_said_to_be_that(scale):
    with pytest.raises(InputError, match="in float32, all zero or not finite"):
        measure_quality(ROWS.astype(np.float64) * scale)


def test_a_compressed_copy_in_shards_has_the_size_of_all_of_them(tmp_path):
    pv.write(tmp_path / "a.fbin", ROWS)
    pv.split(tmp_path / "a.fbin", tmp_path / "part.npy", parts=4)
    found = measure_quality(tmp_path / "a.fbin", str(tmp_path / "part*.npy"), sample_queries=5, k=[1]).entries[0]
    assert found.name.startswith("part") and found.name.endswith(".npy (4 files)")
    assert found.bytes == sum(path.stat().st_size for path in tmp_path.glob("part*.npy"))


def job_of(rows, *, k=(1, 10), metric="cosine", most=None, progress=None):
    runs = spread_runs(len(rows), len(rows) if most is None else most)
    choice = choose_metric(metric, [], default=Metric.COSINE)
    return Job(ArrayColumn("vectors", rows), runs, sum(b - a for a, b in runs), choice, tuple(k), 1, progress)


@pytest.mark.parametrize(("rows", "most", "held"), [(3, None, 1), (200, None, 20), (200, 7, 7), (3000, None, 300)])
def test_a_tenth_of_the_rows_is_held_out_at_most(rows, most, held):
    asked = ask(job_of(ROWS[:rows]), None, most, seed=1)
    assert len(asked.probes) == len(asked.held) == held and asked.given is None
    assert asked.held.tolist() == sorted(set(asked.held.tolist()))
    np.testing.assert_array_equal(asked.probes, ROWS[asked.held])
    assert HELD_OUT == 500


def test_of_a_sample_only_its_own_rows_are_held_out():
    job = job_of(ROWS, most=100)
    inside = {row for start, stop in job.runs for row in range(start, stop)}
    asked = ask(job, None, None, seed=0)
    assert len(inside) < 3000 and set(asked.held.tolist()) <= inside
    np.testing.assert_array_equal(asked.probes, ROWS[asked.held])


def test_a_row_of_zeros_asks_nothing_by_cosine_and_something_else_by_product():
    rows = ROWS[:20].copy()
    rows[::2] = 0
    for metric, wanted in (("ip", 2), ("cosine", None)):
        asked = ask(job_of(rows, metric=metric), None, 2, seed=3)
        assert len(asked.probes) == (wanted or int(asked.probes.any(axis=1).sum()))
        assert wanted or asked.probes.any(axis=1).all()
    with pytest.raises(InputError, match="all zero or not finite; give queries"):
        ask(job_of(np.zeros((50, 4), np.float32)), None, None, seed=0)


def test_the_rows_of_both_passes_are_told():
    told = []
    job = job_of(ROWS, progress=lambda done, total: told.append((done, total)))
    found = measure(job, ask(job, None, 5, seed=0), choose_trials(["bit"]), None)
    assert told[-1] == (6000, 6000) and [done for done, _ in told] == sorted({done for done, _ in told})
    assert (found.left, found.skipped) == (2995, 0) and sum(found.norms[1]) == 2995


def test_a_k_beyond_the_rows_is_left_out_where_another_is_not():
    job = job_of(ROWS[:30], k=(1, 27, 28))
    found = measure(job, ask(job, None, None, seed=0), choose_trials(["float16"]), None)
    assert [one.k for one in found.entries[0].recalls] == [1, 27]
    for k in ((28,), (0, 5)):
        job = job_of(ROWS[:30], k=k)
        with pytest.raises(InputError, match=r"^k must be from 1 to the 27 rows that are left; found "):
            measure(job, ask(job, None, None, seed=0), [], None)


def test_too_few_or_no_finite_rows_are_one_clear_line():
    job = job_of(ROWS[:1])
    with pytest.raises(InputError, match=r"^1 rows are too few to hold queries out of; give queries$"):
        measure(job, ask(job, None, None, seed=0), [], None)
    job = job_of(np.full((5, 3), np.nan, np.float32))
    with pytest.raises(InputError, match=r"^no row is finite; there is nothing to measure$"):
        measure(job, ask(job, np.ones((1, 3), np.float32), None, seed=0), [], None)


def test_an_encoding_that_fails_fails_alone_and_says_why():
    rows = ROWS * np.float32(1e6)
    job = job_of(rows, k=(1,))
    found = measure(job, ask(job, None, 5, seed=0), choose_trials(["float16", "bfloat16"]), None)
    assert "float16" in found.entries[0].failed and found.entries[0].recalls == ()
    assert found.entries[1].failed is None and found.entries[1].recall(1).recall > 0.5
