"""polyvec quality: what a compressed collection loses, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    original: Annotated[str, typer.Argument(help="The original: a file of any format, or a glob of shards.")],
    compressed: Annotated[
        str | None, typer.Argument(help="A compressed copy; without it, encodings are tried.")
    ] = None,
    encodings: Annotated[
        str | None,
        typer.Option(
            "--encodings", "-e", help="What to try, by commas (float16, int8, int4, bit, pq…); all by default."
        ),
    ] = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Name the smallest encoding that holds --recall.")] = False,
    recall: Annotated[float, typer.Option("--recall", help="The recall that --suggest must hold.")] = 0.99,
    queries: Annotated[
        str | None, typer.Option("--queries", help="A file of queries, instead of rows held out.")
    ] = None,
    k: Annotated[str, typer.Option("--k", "-k", help="One k or several, by commas.")] = "1,10,100",
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="ip, cosine or l2; the file's own by default, else cosine.")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", help="Queries held out.")] = 500,
    rows: Annotated[int, typer.Option("--rows", help="Rows measured at most.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Which rows are held out.")] = 0,
    html: Annotated[str | None, typer.Option("--html", help="Write a report with plots to this file.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; as many as there are cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure what encodings lose: size, error, cosine distortion, norm drift and recall, with confidence.

    Examples:

        $ polyvec quality vectors.fbin --encodings float16,int8 --k 1,10

        $ polyvec quality vectors.fbin --suggest --recall 0.9 --k 10 --html report.html
    """
    from polyvec.cli.terminal import print_json, progress
    from polyvec.core.errors import InputError
    from polyvec.neighbors.quality import measure_quality

    try:
        asked = [int(part) for part in k.split(",")]
    except ValueError:
        raise InputError(f"--k takes whole numbers by commas, not {k!r}") from None
    report = measure_quality(
        original, compressed, encodings=None if encodings is None else [e.strip() for e in encodings.split(",")],
        queries=queries, metric=metric, k=asked, sample_queries=sample, sample_rows=rows,
        suggest=recall if suggest else None, seed=seed, threads=threads, progress=progress(json),
    )  # fmt: skip
    if html is not None:
        write_page(html, report)
    if json:
        return print_json(report.to_dict())
    return print_quality(report)


def write_page(path: str, report: Any) -> None:
    """The report as an HTML file, or as JSON or text where the suffix says so; atomically."""
    import json

    from polyvec.cli.terminal import table
    from polyvec.core.sinks import Sink
    from polyvec.neighbors.page import quality_lead, quality_page, quality_rows

    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        text = json.dumps(report.to_dict(), indent=2) + "\n"
    elif suffix in (".txt", ".md"):
        headings, rows = quality_rows(report)
        text = "\n".join([*quality_lead(report), "", table(headings, rows, right=range(1, len(headings)))]) + "\n"
    else:
        text = quality_page(report)
    with Sink(path) as sink:
        sink.write(text.encode())


def print_quality(report: Any) -> None:
    """The report as text."""
    from polyvec.cli.terminal import table
    from polyvec.neighbors.page import quality_lead, quality_rows

    headings, rows = quality_rows(report)
    print(f"{report.source}")
    for line in quality_lead(report):
        print(f"  {line}")
    print()
    print(table(headings, rows, right=range(1, len(headings))))
