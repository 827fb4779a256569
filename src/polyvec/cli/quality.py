"""polyvec quality: what a compressed collection loses, measured."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    original: Annotated[str, typer.Argument(help="The original: a file of any format, or a glob of shards.")],
    compressed: Annotated[
        str | None, typer.Argument(help="A compressed copy; without it, encodings are tried.")
    ] = None,
    encodings: Annotated[
        str | None, flags.encodings(f"float16, int8, int4, bit, pq…; {flags.MANY}, and all are tried by default")
    ] = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Name the smallest encoding that holds --recall.")] = False,
    recall: Annotated[float, typer.Option("--recall", help="The recall that --suggest must hold.")] = 0.99,
    queries: Annotated[str | None, flags.query_file("instead of rows held out")] = None,
    k: Annotated[str, flags.neighbours(flags.MANY)] = "1,10,100",
    metric: Annotated[str | None, flags.metrics("ip, cosine or l2; the file's own by default, else cosine")] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", help="Queries: 500 rows held out, or all that are given, by default.")
    ] = None,
    rows: Annotated[
        int | None, flags.row_count("a quick look; recall among fewer rows is higher, so all by default")
    ] = None,
    seed: Annotated[int, flags.seed("which rows are held out")] = 0,
    report: flags.Report = None,
    threads: flags.Threads = None,
    json: flags.Json = False,
) -> None:
    """Measure what encodings lose: size, error, cosine distortion, norm drift and recall, with confidence.

    Examples:

        $ polyvec quality vectors.fbin --encoding float16,int8 --k 1,10

        $ polyvec quality vectors.fbin --suggest --recall 0.9 --k 10 --report report.html
    """
    from polyvec.cli.reports import check_report
    from polyvec.cli.terminal import print_json, progress
    from polyvec.core.errors import InputError
    from polyvec.reports.quality import measure_quality

    try:
        asked = [int(part) for part in k.split(",")]
    except ValueError:
        raise InputError(f"--k takes whole numbers by commas, not {k!r}") from None
    check_report(report, original, compressed, queries)
    found = measure_quality(
        original,
        compressed,
        encodings=None if encodings is None else [e.strip() for e in encodings.split(",")],
        queries=queries,
        metric=metric,
        k=asked,
        sample_queries=sample,
        sample_rows=rows,
        suggest=recall if suggest else None,
        seed=seed,
        threads=threads,
        progress=progress(json),
    )
    if report is not None:
        write_quality(report, found)
    if json:
        return print_json(found.to_dict())
    print(_text(found))
    return None


def write_quality(path: str, found: Any) -> None:
    """What was measured as a page, as JSON or as text, as the suffix says."""
    from polyvec.cli.reports import write_report
    from polyvec.reports.pages import quality_page

    write_report(path, page=lambda: quality_page(found), text=lambda: _text(found), values=found.to_dict())


def _text(found: Any) -> str:
    """What was measured, for people."""
    from polyvec.cli.terminal import table
    from polyvec.reports.pages import quality_lead, quality_rows

    headings, rows = quality_rows(found)
    lead = [f"  {line}" for line in quality_lead(found)]
    return "\n".join([f"{found.source}", *lead, "", table(headings, rows, right=range(1, len(headings)))])
