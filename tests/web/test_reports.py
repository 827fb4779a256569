"""The reports of stats and quality as a person sees them: wide and narrow screens, dark and light."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.reports.pages import quality_page, stats_page
from polyvec.reports.quality import measure_quality

sys.path.insert(0, str(Path(__file__).parent))
import chromium

pytestmark = [pytest.mark.browser, pytest.mark.skipif(chromium.missing() is not None, reason=chromium.missing() or "")]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports") / ("a_name_without_any_break" * 4)
    folder.mkdir()
    rows = np.random.default_rng(0).standard_normal((400, 24)).astype(np.float32)
    rows[7] = rows[3]
    pv.write(folder / "rows.fbin", rows)
    pages = {
        "stats": stats_page(pv.stats(folder / "rows.fbin")),
        "quality": quality_page(measure_quality(folder / "rows.fbin", sample_queries=20, suggest=0.9)),
    }
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html)
    return {name: folder / f"{name}.html" for name in pages}


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with chromium.browser() as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["stats", "quality"])
def test_a_phone_scrolls_down_only(chrome: Any, reports: dict[str, Path], name: str, scheme: str):
    context = chrome.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    page.goto(reports[name].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    boxes = page.evaluate("[...document.querySelectorAll('.wide, .plot')].map(e => [e.clientWidth, e.scrollWidth])")
    assert boxes and all(width <= 360 for width, _ in boxes) and any(inner > width for width, inner in boxes)
    size = page.evaluate(
        "[...document.querySelectorAll('svg .tick')].map(t => t.getBoundingClientRect().height).reduce((a, b) => Math.min(a, b))"
    )
    assert size >= 7  # a label that can still be read
    ink, paper = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    assert (ink, paper) == (
        ("rgb(31, 41, 51)", "rgb(255, 255, 255)") if scheme == "light" else ("rgb(230, 233, 237)", "rgb(20, 24, 29)")
    )
    context.close()
