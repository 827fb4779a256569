"""Plots, read back: every mark lies where the axis, by its own labels, says that its value lies."""

from __future__ import annotations

import re
from math import log10

import numpy as np
import pytest

from polyvec.reports import charts
from polyvec.reports.pages import quality_page, stats_page
from polyvec.reports.quality import measure_quality
from polyvec.reports.stats import stats


def ticks(svg: str) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Labels and places of the x axis and the y axis, as a reader sees them."""
    found = re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)" text-anchor="(end|middle)" class="tick">([^<]*)</text>', svg)
    base = charts.HEIGHT - charts.BOTTOM + 17
    across = [(number(label), float(x)) for x, y, how, label in found if how == "middle" and float(y) == base]
    up = [(number(label), float(y) - 4) for x, y, how, label in found if how == "end"]
    return across, up


def number(label: str) -> float:
    return float(label.replace(",", ""))


def place_of(axis: list[tuple[float, float]], *, log: bool = False):
    """From a value to its pixel, by the first and the last tick alone."""
    (a, pa), (b, pb) = axis[0], axis[-1]
    scale = log10 if log else float
    return lambda value: pa + (scale(value) - scale(a)) / (scale(b) - scale(a)) * (pb - pa)


def check_axis(axis: list[tuple[float, float]], low: float, high: float, *, log: bool = False) -> None:
    labels = [label for label, _ in axis]
    assert len(axis) >= 2 and len(set(labels)) == len(labels) and labels == sorted(labels)
    assert all(min(low, high) - 1 <= pixel <= max(low, high) + 1 for _, pixel in axis), "a tick is outside the plot"
    where = place_of(axis, log=log)
    assert all(abs(where(label) - pixel) < 3 for label, pixel in axis)


def test_bars_lie_where_the_axis_says():
    counts = [3, 0, 5, 1]
    svg = charts.bars("t", [0.5, 1.0, 1.5, 2.0, 2.5], counts, x="x")
    across, up = ticks(svg)
    check_axis(across, charts.LEFT, charts.WIDTH - charts.RIGHT)
    check_axis(up, charts.HEIGHT - charts.BOTTOM, charts.TOP)
    rects = [
        tuple(map(float, r))
        for r in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', svg)
    ]
    for (left, top, height), edge, count in zip(rects, (0.5, 1.0, 1.5, 2.0), counts):
        assert abs(left - place_of(across)(edge)) < 1 and abs(top - place_of(up)(count)) < 1
        assert abs(top + height - place_of(up)(0)) < 1
    assert all(label.is_integer() for label, _ in up)  # rows are counted whole


def lines_of(svg: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, p.split(","))) for p in line.split()]
        for line in re.findall(r'<polyline points="([^"]+)"', svg)
    ]


def plots_of(html: str) -> dict[str, str]:
    return {re.search(r'aria-label="([^"]+)"', svg)[1]: svg for svg in re.findall(r"<svg.*?</svg>", html)}


@pytest.mark.parametrize("offset", [-20.0, 0.0, 1000.0])
@pytest.mark.parametrize("dim", [1, 2, 3, 40])
def test_the_range_of_each_dimension_is_read_off_the_axis(dim: int, offset: float):
    rows = (np.random.default_rng(0).standard_normal((60, dim)) + offset).astype(np.float32)
    found = stats(rows)
    plots = plots_of(stats_page(found))
    svg = plots["range by dimension"]
    across, up = ticks(svg)
    assert all(label.is_integer() for label, _ in across)
    middle = place_of(across) if dim > 1 else lambda value: across[0][1]
    d = found.dimensions
    for line, values in zip(lines_of(svg), (d.maximum, d.mean, d.minimum)):
        for i, value in enumerate(values):
            (left, y), (right, also) = line[2 * i : 2 * i + 2]
            assert y == also and abs((left + right) / 2 - middle(i)) < 1.5
            assert abs(y - place_of(up)(value)) < 1
    across, up = ticks(plots["spread by dimension"])
    rects = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', plots["spread by dimension"])
    middle = place_of(across) if dim > 1 else lambda value: across[0][1]
    for i, (x, y, width) in enumerate(rects):
        assert abs(float(x) + (float(width) + 1) / 2 - middle(i)) < 1.5 and abs(float(y) - place_of(up)(d.std[i])) < 1


def test_a_value_that_is_not_finite_leaves_a_gap():
    svg = charts.lines("t", [0, 1, 2, 3], [("a", [1, float("nan"), 2])], x="x", y="y", from_zero=False)
    assert [len(line) for line in lines_of(svg)] == [2, 2]


def test_the_plots_of_a_quality_report_agree_with_its_figures():
    found = measure_quality(np.random.default_rng(1).standard_normal((700, 24)).astype(np.float32), sample_queries=50)
    plots = plots_of(quality_page(found))
    for k in (r.k for r in found.entries[0].recalls):
        svg = plots[f"recall@{k} against size"]
        across, up = ticks(svg)
        check_axis(across, charts.LEFT, charts.WIDTH, log=True)
        check_axis(up, charts.HEIGHT - charts.BOTTOM, charts.TOP)
        circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)".*?<title>(\S+):', svg)
        assert len(circles) == len([e for e in found.entries if e.recall(k) is not None])
        for x, y, name in circles:
            entry = next(e for e in found.entries if e.name == name)
            assert abs(float(x) - place_of(across, log=True)(entry.bytes / found.rows)) < 2
            assert abs(float(y) - place_of(up)(entry.recall(k).recall)) < 1
    assert max(label for label, _ in up) <= 1
    across, up = ticks(plots["length of a row"])
    edges, counts = found.norm_histogram
    tops = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', plots["length of a row"])
    for (x, y), edge, count in zip(tops, edges, counts):
        assert abs(float(x) - place_of(across)(edge)) < 1.5 and abs(float(y) - place_of(up)(count)) < 1


def test_errors_that_a_logarithmic_axis_cannot_show_are_told():
    rows = np.random.default_rng(2).integers(-3, 4, (300, 16)).astype(np.float32)
    assert "Not drawn, since a logarithmic axis has no zero" in quality_page(measure_quality(rows, sample_queries=20))


def test_recall_of_one_stays_the_top_of_its_axis():
    svg = charts.points("t", [("a", 4, 1.0), ("b", 8, 1.0)], x="x", y="y", high=1.0)
    assert max(label for label, _ in ticks(svg)[1]) == 1.0
