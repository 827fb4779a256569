"""Pages of reports: one file that fetches nothing, with every name escaped and every figure of the table."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyvec as pv
from polyvec.reports.pages import html_table, page, quality_lead, quality_page, quality_rows, stats_lines, stats_page
from polyvec.reports.quality import measure_quality
from polyvec.testing import vectors

ROWS = vectors(300, 16)


@pytest.fixture(scope="module")
def report():
    return measure_quality(ROWS, encodings=["float16", "int4"])


def test_a_page_is_whole_and_escapes_what_is_plain() -> None:
    made = page("a <b> & c", ["x < y"], ["<p>given</p>"])
    assert made.startswith("<!doctype html>") and made.endswith("</body></html>\n")
    assert made.count("a &lt;b&gt; &amp; c") == 2 and "<p>x &lt; y</p>" in made and "<p>given</p>" in made
    assert "<script" not in made and not re.search(r"(src|href)=", made) and "url(" not in made


def test_a_table_is_its_cells_and_one_row_stands_out() -> None:
    made = html_table(["a", "<b>"], [["1", "<2>"], ["3", "4"]], best=1)
    assert "<th>&lt;b&gt;</th>" in made and "<td>&lt;2&gt;</td>" in made
    assert made.count('class="best"') == 1 and '<tr class="best"><td>3</td>' in made


def test_the_table_of_quality_has_a_line_for_every_encoding(report) -> None:
    headings, rows = quality_rows(report)
    assert len(rows) == len(report.entries) and all(len(row) == len(headings) for row in rows)
    for row, entry in zip(rows, report.entries):
        assert row[0] == entry.name and row[1] == f"{entry.bytes:,}" and f"{entry.max_error:.2e}" in row
    made = quality_page(report)
    assert all(f"<td>{cell}</td>" in made for row in rows for cell in row if "±" not in cell)
    assert made.count("<svg") >= 3


def test_the_lead_says_what_was_measured(report) -> None:
    lead = " ".join(quality_lead(report))
    assert "300 rows x 16 float32, 19,200 bytes raw." in lead and f"metric {report.metric}" in lead


def test_statistics_are_lines_of_a_name_and_a_figure() -> None:
    rows = ROWS.copy()
    rows[5] = rows[4]
    rows[7, 0] = np.nan
    found = pv.stats(rows)
    lines = dict(stats_lines(found))
    assert lines["odd rows"] == "0 zero, 1 NaN, 0 infinite" and lines["duplicates"].startswith("1 rows equal")
    assert "not normalised" in lines["norms"] and stats_page(found).count("<svg") == 3
