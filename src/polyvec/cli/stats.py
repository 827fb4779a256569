"""polyvec stats: what the vectors look like."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    file: Annotated[str, typer.Argument(help="A file of any format, or a glob of shards.")],
    source_format: flags.SourceFormat = None,
    column: flags.ColumnName = None,
    report: flags.Report = None,
    threads: flags.Threads = None,
    json: flags.Json = False,
) -> None:
    """Look at the data: dimensions, norms, duplicates, zero and NaN rows, isotropy, intrinsic dimension.

    Example:

        $ polyvec stats vectors.fbin --report stats.html
    """
    from polyvec import formats
    from polyvec.cli.reports import check_report, write_report
    from polyvec.cli.terminal import print_json, progress
    from polyvec.reports.pages import stats_page
    from polyvec.reports.stats import stats

    check_report(report, file)
    with formats.open(file, format=source_format) as opened:
        found = stats(opened, column=column, threads=threads, progress=progress(json))
    if report is not None:
        write_report(report, page=lambda: stats_page(found), text=lambda: _text(found), values=found.to_dict())
    if json:
        return print_json(found.to_dict())
    print(_text(found))
    return None


def _text(found: Any) -> str:
    """What was found, for people."""
    from polyvec.cli.terminal import table
    from polyvec.reports.pages import stats_lines

    lines = [f"{found.source}: {found.rows:,} x {found.dim} {found.dtype}"]
    lines += [f"  {name:<20} {value}" for name, value in stats_lines(found)]
    if found.dimensions is not None:
        d = found.dimensions
        order = sorted(range(found.dim), key=lambda i: -d.std[i])
        shown = order if found.dim <= 8 else [*order[:4], *order[-4:]]
        rows = [(i, f"{d.mean[i]:.4g}", f"{d.std[i]:.4g}", f"{d.minimum[i]:.4g}", f"{d.maximum[i]:.4g}") for i in shown]
        title = "dimensions by spread" if found.dim <= 8 else "the four dimensions of most and of least spread"
        lines += ["", f"{title}:", table(("dimension", "mean", "std", "min", "max"), rows, right=(0, 1, 2, 3, 4))]
    return "\n".join(lines)
