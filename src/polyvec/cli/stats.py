"""polyvec stats: what the vectors look like."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    file: Annotated[str, typer.Argument(help="A file of any format, or a glob of shards.")],
    column: Annotated[str | None, typer.Option("--column", help="Look at this column.")] = None,
    html: Annotated[str | None, typer.Option("--html", help="Write a report with plots to this file.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; as many as there are cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at the data: dimensions, norms, duplicates, zero and NaN rows, isotropy, intrinsic dimension.

    Example:

        $ polyvec stats vectors.fbin --html stats.html
    """
    from polyvec.cli.terminal import print_json, progress, table
    from polyvec.core.sinks import Sink
    from polyvec.neighbors.page import stats_lines, stats_page
    from polyvec.verbs.stats import stats

    found = stats(file, column=column, threads=threads, progress=progress(json))
    if html is not None:
        with Sink(html) as sink:
            sink.write(stats_page(found).encode())
    if json:
        return print_json(found.to_dict())
    print(f"{found.source}: {found.rows:,} x {found.dim} {found.dtype}")
    for name, value in stats_lines(found):
        print(f"  {name:<20} {value}")
    if found.dimensions is not None:
        d = found.dimensions
        order = sorted(range(found.dim), key=lambda i: -d.std[i])
        shown = order if found.dim <= 8 else [*order[:4], *order[-4:]]
        rows = [(i, f"{d.mean[i]:.4g}", f"{d.std[i]:.4g}", f"{d.minimum[i]:.4g}", f"{d.maximum[i]:.4g}") for i in shown]
        title = "dimensions by spread" if found.dim <= 8 else "the four dimensions of most and of least spread"
        print(f"\n{title}:")
        print(table(("dimension", "mean", "std", "min", "max"), rows, right=(0, 1, 2, 3, 4)))
    return None
