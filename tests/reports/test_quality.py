"""quality measures what it says: sizes, errors and recall agree with a plain computation."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.errors import InputError
from polyvec.kernels import available_paths, use_path
from polyvec.reports.pages import quality_lead, quality_page
from polyvec.reports.quality import measure_quality
from polyvec.reports.suggestion import pick_smallest
from polyvec.reports.trials import TRIALS, Look, nearest

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((20, 32))
ROWS = (CENTRES[RNG.integers(0, 20, 3000)] + 0.5 * RNG.standard_normal((3000, 32))).astype(np.float32)


@pytest.fixture(scope="module")
def report():
    return measure_quality(ROWS, sample_queries=100, suggest=0.9)


def test_sizes_are_those_of_the_encoding(report):
    sizes = {entry.name: entry.bytes for entry in report.entries}
    assert report.bytes == 3000 * 32 * 4
    assert sizes["float16"] == 3000 * 64 and sizes["int8-file"] == 3000 * 32 and sizes["int8-row"] == 3000 * 36
    assert sizes["int4"] == 3000 * 20 and sizes["bit"] == 3000 * 8 and sizes["pq"] == 3000 * 4
    assert sizes["half-dims"] == 3000 * 64 and sizes["quarter-dims"] == 3000 * 32


def test_more_bytes_lose_less(report):
    error = {entry.name: entry.mean_error for entry in report.entries}
    assert error["float16"] < error["bfloat16"] < error["int8-row"] < error["int4"] < error["bit"]
    recall = {entry.name: entry.recall(10).recall for entry in report.entries}
    assert recall["float16"] > 0.99 and recall["int8-row"] > 0.9 > recall["bit"]
    assert all(entry.failed is None for entry in report.entries)


def test_the_figures_are_those_of_a_plain_computation():
    entry = measure_quality(ROWS, encodings=["float16"], sample_queries=50, k=[1, 10], metric="l2", seed=3).entries[0]
    held = np.sort(np.random.default_rng(3).choice(np.arange(3000), 50, replace=False))
    base = np.delete(ROWS, held, axis=0)
    after = base.astype(np.float16).astype(np.float32)
    assert entry.max_error == float(np.abs(base - after).max())
    assert entry.mean_error == pytest.approx(float(np.abs(base - after).mean()), rel=1e-5)
    drift = np.abs(np.linalg.norm(after, axis=1) / np.linalg.norm(base, axis=1) - 1).mean()
    assert entry.norm_drift == pytest.approx(drift, rel=1e-2)
    queries = ROWS[held]
    true = pv.search(base, queries, 10, "l2").rows
    found = pv.search(after, queries, 10, "l2").rows
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true, found)])
    assert entry.recall(10).recall == pytest.approx(share, abs=0.005)
    assert entry.recall(10).low <= entry.recall(10).recall <= entry.recall(10).high


def test_a_compressed_file_is_compared_row_by_row(tmp_path):
    pv.write(tmp_path / "a.fbin", ROWS)
    pv.convert(tmp_path / "a.fbin", tmp_path / "b.f16bin", encoding="float16")
    found = measure_quality(tmp_path / "a.fbin", tmp_path / "b.f16bin", sample_queries=40, k=[1, 10])
    tried = measure_quality(ROWS, encodings=["float16"], sample_queries=40, k=[1, 10]).entries[0]
    entry = found.entries[0]
    assert entry.name == "b.f16bin" and entry.bytes == (tmp_path / "b.f16bin").stat().st_size
    assert (entry.max_error, entry.recalls) == (tried.max_error, tried.recalls)


def test_the_suggestion_is_the_smallest_that_holds(report):
    able = [e for e in report.entries if e.recall(10).low >= 0.9 and TRIALS[e.name].target is not None]
    assert report.suggestion == min(able, key=lambda e: e.bytes).name == pick_smallest(able, 10, 0.9)
    assert pick_smallest(report.entries[-3:], 10, 0.99) == "raw"


def plain_recall(rows, after, queries, k, metric):
    """Recall by NumPy in float64, over all rows."""

    def best(base):
        base, asked = base.astype(np.float64), queries.astype(np.float64)
        scores = asked @ base.T
        if metric == "cosine":
            scores /= np.linalg.norm(base, axis=1)
        elif metric == "l2":
            scores = 2 * scores - (base**2).sum(axis=1)
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]

    return np.mean([len(set(a) & set(b)) / k for a, b in zip(best(rows), best(after))])


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_recall_is_among_all_rows_however_many(metric):
    rows = RNG.standard_normal((210_000, 4)).astype(np.float32)
    queries = RNG.standard_normal((20, 4)).astype(np.float32)
    found = measure_quality(rows, encodings=["int4"], queries=queries, k=[10], metric=metric)
    after = TRIALS["int4"].fit(Look(0, 1, rows))(rows, np.arange(len(rows)))
    assert found.measured_rows == 210_000 and found.sampled_rows is None
    assert found.entries[0].recall(10).recall == pytest.approx(plain_recall(rows, after, queries, 10, metric), abs=0.01)
    assert f"Measured on all 210,000 rows with 20 queries given, metric {metric}" in quality_lead(found)[1]


def test_a_sample_of_rows_says_that_it_flatters_and_suggests_nothing():
    few = measure_quality(ROWS, encodings=["int4"], sample_rows=300, sample_queries=30, k=[10])
    whole = measure_quality(ROWS, encodings=["int4"], sample_queries=30, k=[10])
    assert few.sampled_rows == few.measured_rows + few.queries < 3000
    assert few.entries[0].recall(10).recall > whole.entries[0].recall(10).recall
    assert any("recall on all of them is lower than shown" in line for line in quality_lead(few))
    with pytest.raises(InputError, match="a suggestion must hold on all 3000 rows"):
        measure_quality(ROWS, sample_rows=300, suggest=0.9)


def test_only_what_convert_writes_is_suggested(report):
    assert report.suggestion in ("float16", "bfloat16", "int8-chunk", "raw")
    assert report.command is None  # of an array there is no file to convert
    low = measure_quality(ROWS, sample_queries=50, k=[10], suggest=0.1)
    assert low.suggestion == "int8-chunk" and low.smaller in ("bit", "pq")
    assert any(f"{low.smaller} would hold it too" in line for line in quality_lead(low))
    halves = measure_quality(ROWS.astype(np.float16), encodings=["float16", "bfloat16"], k=[10], suggest=0.5)
    assert halves.suggestion == "raw"  # nothing would get smaller
    odd = ROWS.copy()
    odd[5] = np.nan  # int8 cannot hold it
    assert measure_quality(odd, sample_queries=50, k=[10], suggest=0.1).suggestion == "float16"


def test_too_few_queries_to_tell_are_not_taken_for_a_loss():
    found = measure_quality(ROWS, encodings=["float16"], queries=ROWS[:50] + np.float32(0.01), k=(10,), suggest=0.99)
    assert found.entries[0].recalls[0].recall >= 0.99 > found.entries[0].recalls[0].low
    assert (found.suggestion, found.undecided) == ("raw", "float16")
    assert any("50 queries are too few to be sure" in line for line in quality_lead(found))
    sure = measure_quality(ROWS, encodings=["float16"], queries=ROWS[:500] + np.float32(0.01), k=(10,), suggest=0.99)
    assert (sure.suggestion, sure.undecided) == ("float16", None)


def test_recall_plots_have_whiskers(report):
    marks = re.findall(r'<path d="M([\d.]+) ([\d.]+)V([\d.]+)[^>]*class="whisker"', quality_page(report))
    assert len(marks) >= 2 * len(TRIALS) and all(float(low) > float(high) for _, low, high in marks)
    entry = report.entries[0].recall(1)
    assert f"({entry.low:.4g} to {entry.high:.4g})</title>" in quality_page(report)


def test_an_encoding_that_cannot_be_is_said():
    found = measure_quality(ROWS * np.float32(1e6), encodings=["float16", "bfloat16"], sample_queries=20, k=[1])
    assert "does not fit float16" in found.entries[0].failed and found.entries[1].failed is None
    assert "could not be measured" in quality_page(found)


def test_the_page_is_one_file_with_plots_and_nothing_fetched(report):
    html = quality_page(report)
    assert html.count("<svg") == 5 and "recall@10 against size" in html
    links = re.findall(r"https?://[^\"'\s<]+", html)
    assert set(links) <= {"http://www.w3.org/2000/svg"} and "<script" not in html and "@import" not in html
    assert all(f">{name}<" in html for name in TRIALS)


def test_names_in_a_page_are_escaped(tmp_path):
    path = tmp_path / "<b>&.fbin"
    pv.write(path, ROWS[:200])
    html = quality_page(measure_quality(path, encodings=["bit"], sample_queries=5, k=[1]))
    assert "<b>&.fbin" not in html and "&lt;b&gt;&amp;.fbin" in html


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.parametrize("dim", [1, 7, 9])
def test_every_trial_gives_rows_back_in_any_dimension(name, dim):
    rows = RNG.standard_normal((300, dim)).astype(np.float32)
    rows[3] = 0
    after = TRIALS[name].fit(Look(float(rows.min()), float(rows.max()), rows))(rows, np.arange(300))
    assert after.shape == rows.shape and after.dtype == np.float32 and np.isfinite(after).all()
    assert TRIALS[name].row_bytes(dim) > 0


@pytest.mark.parametrize("path", available_paths())
def test_the_nearest_centroid_is_the_same_on_every_path(path):
    rows = RNG.integers(-3, 4, (500, 20)).astype(np.float32)  # whole numbers: many ties
    book = RNG.integers(-3, 4, (256, 5)).astype(np.float32)
    distances = ((rows[:, None, 3:8] - book[None]) ** 2).sum(axis=2)
    with use_path(path):
        found = nearest(rows, 3, book)
        floats = nearest(rows * np.float32(0.37), 3, book)
    np.testing.assert_array_equal(found, distances.argmin(axis=1))
    with use_path("numpy"):
        np.testing.assert_array_equal(floats, nearest(rows * np.float32(0.37), 3, book))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encodings": ["zip"]}, "encoding 'zip' is not on trial; there are float16"),
        ({"compressed": ROWS[:, :5]}, "the original is 3000 x 32 and the compressed file is 3000 x 5"),
        ({"queries": ROWS[:, :5]}, "the queries have 5 dimensions and the original has 32"),
        ({"k": [0]}, "k must be from 1"),
        ({"suggest": 1.5}, "the recall target is 1.5"),
        ({"metric": "x"}, "metric 'x' is unknown"),
    ],
)
def test_bad_input_is_one_clear_line(options, says):
    with pytest.raises(InputError, match=re.escape(says)):
        measure_quality(ROWS, **options)
