"""HTML pages of the reports: one file, inline style and SVG, nothing fetched, no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from polyvec.reports import charts
from polyvec.reports.quality import Quality
from polyvec.reports.tally import ERROR_BINS, Entry

if TYPE_CHECKING:
    from polyvec.reports.stats import Stats

STYLE = """
:root{color-scheme:light dark;--ink:#1f2933;--soft:#5b6672;--line:#d9dee4;--paper:#fff;--band:#f5f7f9}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa5b1;--line:#39424d;--paper:#14181d;--band:#1c2229}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
body{max-width:82rem;margin:2rem auto;padding:0 1rem}
h1,p{overflow-wrap:anywhere}h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{color:var(--soft);margin:.2rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .5rem;font-size:.88rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{background:var(--band);font-weight:600}
tr.best td{background:var(--band);font-weight:600}.wide{overflow-x:auto}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1.5rem}
.plot{overflow-x:auto}svg{display:block;width:100%;min-width:26rem;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .tick{fill:var(--soft);font-size:11px}
svg .title{font-weight:600;font-size:13px}svg .mark{font-size:10.5px}svg .grid{stroke:var(--line);stroke-width:.6}
svg .axis{stroke:var(--soft)}
"""


def page(title: str, lead: Sequence[str], body: Sequence[str]) -> str:
    """A whole page of parts that are HTML already; `lead` is plain text."""
    head = "".join(f"<p>{escape(line)}</p>" for line in lead)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{escape(title)}</title><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1>{head}{''.join(body)}</body></html>\n"
    )


def _plots(plots: Sequence[str]) -> str:
    """Plots side by side, each in a box of its own that scrolls where the screen is narrow."""
    return f'<div class="plots">{"".join(f"<div class=plot>{plot}</div>" for plot in plots if plot)}</div>'


def html_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, best: int | None = None) -> str:
    """A table of plain text; row `best` stands out."""
    head = "".join(f"<th>{escape(h)}</th>" for h in headings)
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in row)
        lines.append(f'<tr class="best">{cells}</tr>' if number == best else f"<tr>{cells}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def quality_rows(report: Quality) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the quality table, for text and HTML alike."""
    ks = [r.k for r in next((e.recalls for e in report.entries if e.recalls), ())]
    headings = ["encoding", "bytes", "ratio", "max error", "mean error", "max 1-cos", "mean 1-cos", "norm drift"]
    headings += [f"recall@{k}" for k in ks]
    return headings, [_cells(entry, ks) for entry in report.entries]


def _cells(entry: Entry, ks: Sequence[int]) -> list[str]:
    start = [entry.name, f"{entry.bytes:,}", f"{entry.ratio:.2f}x"]
    if entry.failed is not None:
        return [*start, *["-"] * (5 + len(ks))]
    figures = (entry.max_error, entry.mean_error, entry.max_distortion, entry.mean_distortion, entry.norm_drift)
    shown = [f"{value:.2e}" for value in figures]
    for k in ks:
        found = entry.recall(k)
        shown.append(
            "-"
            if found is None
            else f"{found.recall:.4f} ±{max(found.high - found.recall, found.recall - found.low):.4f}"
        )
    return [*start, *shown]


def quality_lead(report: Quality) -> list[str]:
    """What was measured, in sentences."""
    asked = f"{report.queries:,} queries held out of the base"
    if report.given_queries == report.queries:
        asked = f"{report.queries:,} queries given"
    elif report.given_queries is not None:
        asked = f"{report.queries:,} of {report.given_queries:,} queries given, evenly spread"
    lead = [
        f"{report.rows:,} rows x {report.dim} {report.dtype}, {report.bytes:,} bytes raw.",
        f"Measured on {'all ' if report.sampled_rows is None else ''}{report.measured_rows:,} rows with {asked}, metric "
        f"{report.metric} ({report.metric_from}); queries stay in full precision. Recall is fair to ties; ± is the 95 % "
        "interval over queries.",
    ]
    if report.sampled_rows is not None:
        lead.append(
            f"Only {report.sampled_rows:,} of {report.rows:,} rows were measured: among fewer rows neighbours lie farther "
            "apart, so recall on all of them is lower than shown, and no interval covers that. Leave --rows out for it."
        )
    lead += [f"{note}." for note in report.notes]
    if report.skipped_rows:
        lead.append(f"{report.skipped_rows:,} rows that are not finite were left out.")
    if report.suggestion is not None and report.target is not None:
        k, share = report.target
        lead.append(f"Smallest encoding that holds recall@{k} of {share:g} and can be written: {report.suggestion}.")
        if report.smaller is not None:
            lead.append(f"{report.smaller} would hold it too, and be smaller; no format here has it.")
        if report.undecided is not None:
            lead.append(
                f"{report.undecided} may hold it and be smaller: its recall@{k} is no less, but {report.queries:,} queries are "
                "too few to be sure of it."
            )
        if report.command is not None:
            lead.append(f"To write it: {report.command}")
    lead += [f"{e.name} could not be measured: {e.failed}" for e in report.entries if e.failed is not None]
    return lead


def quality_page(report: Quality) -> str:
    """The quality report as one HTML file."""
    headings, rows = quality_rows(report)
    best = next((i for i, e in enumerate(report.entries) if e.name == report.suggestion), None)
    ks = [r.k for r in next((e.recalls for e in report.entries if e.recalls), ())]
    plots = []
    for k in ks:
        measured = [(e, r) for e in report.entries if (r := e.recall(k)) is not None]
        marks = [(e.name, e.bytes / max(1, report.rows), r.recall) for e, r in measured]
        plots.append(
            charts.points(
                f"recall@{k} against size",
                marks,
                x="bytes a row",
                y=f"recall@{k}, 95 % interval",
                log_x=True,
                high=1.0,
                intervals=[(r.low, r.high) for _, r in measured],
            )
        )
    shown = [(e.name, e.error_histogram) for e in report.entries if e.error_histogram]
    plots.append(charts.lines("error of a value", list(ERROR_BINS), shown, x="absolute error", y="values", log_x=True))
    exact = [f"{name} {values[0] / sum(values):.1%}" for name, values in shown if values[0] >= 0.0005 * sum(values) > 0]
    plots.append(charts.bars("length of a row", *report.norm_histogram, x="norm"))
    body = [html_table(headings, rows, best=best), "<h2>Plots</h2>", _plots(plots)]
    if exact:
        told = f"Not drawn, since a logarithmic axis has no zero: errors below {ERROR_BINS[1]:g}, {', '.join(exact)}."
        body.append(f"<p>{escape(told)}</p>")
    notes = "".join(f"<p><b>{escape(e.name)}</b>: {escape(e.title)}</p>" for e in report.entries)
    return page(f"Quality of {report.source}", quality_lead(report), [*body, "<h2>Encodings</h2>", notes])


def stats_lines(found: Stats) -> list[tuple[str, str]]:
    """The figures in words, for text and HTML alike."""
    out: list[tuple[str, str]] = []
    if found.norms is not None:
        n = found.norms
        told = "normalised" if n.normalised else "not normalised"
        out.append(("norms", f"{n.minimum:.6g} to {n.maximum:.6g}, mean {n.mean:.6g}, std {n.std:.3g}: {told}"))
    odd = (("zero", found.zero_rows), ("NaN", found.nan_rows), ("infinite", found.infinite_rows))
    out.append(("odd rows", ", ".join(f"{count:,} {name}" for name, count in odd)))
    if found.duplicates is None:
        out.append(("duplicates", "not counted: too many rows"))
    else:
        pairs = ", ".join(f"{b} = {a}" for a, b in found.duplicate_examples)
        out.append(
            ("duplicates", f"{found.duplicates:,} rows equal an earlier one" + (f" (row {pairs})" if pairs else ""))
        )
    if found.dimensions is not None:
        constant = found.dimensions.constant
        names = ", ".join(map(str, constant[:8])) + (" …" if len(constant) > 8 else "")
        out.append(("constant dimensions", f"{len(constant)}" + (f" ({names})" if constant else "")))
    if found.shape is not None:
        s = found.shape
        out.append(("near-duplicates", f"{s.near_duplicates:.2%} of the sampled rows"))
        if s.nearest_cosine is not None:
            out.append(("nearest neighbour", f"median cosine {s.nearest_cosine:.4f}"))
        out.append(("mean cosine", f"{s.mean_cosine:.4f} between two rows"))
        out.append(("isotropy", f"{s.isotropy:.4f} (1 is isotropic)"))
        out.append(("effective rank", f"{s.effective_rank:.1f} of {found.dim}; first axis holds {s.top_variance:.1%}"))
        dimension = (
            "not enough distinct neighbours" if s.intrinsic_dimension is None else f"{s.intrinsic_dimension:.1f}"
        )
        out.append(("intrinsic dimension", dimension))
    return out


def stats_page(found: Stats) -> str:
    """The look at the data as one HTML file."""
    body = [html_table(("", ""), [list(line) for line in stats_lines(found)])]
    plots = []
    if found.norms is not None:
        plots.append(charts.bars("length of a row", found.norms.edges, found.norms.counts, x="norm"))
    if found.dimensions is not None:
        d = found.dimensions
        edges = [i - 0.5 for i in range(found.dim + 1)]  # a dimension's number is in the middle of its place
        plots.append(
            charts.bars(
                "spread by dimension", edges, d.std, x="dimension", y="std", whole_x=True, colour=charts.COLOURS[2]
            )
        )
        series = [("max", d.maximum), ("mean", d.mean), ("min", d.minimum)]
        plots.append(
            charts.lines("range by dimension", edges, series, x="dimension", y="value", whole_x=True, from_zero=False)
        )
    body += ["<h2>Plots</h2>", _plots(plots)]
    return page(f"Statistics of {found.source}", [f"{found.rows:,} rows x {found.dim} {found.dtype}."], body)
