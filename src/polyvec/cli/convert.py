"""polyvec convert: any format into any other."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import receipts as shared


def command(
    source: Annotated[str, typer.Argument(help="A file, a glob of shards, or - for standard input.")],
    target: Annotated[str, typer.Argument(help="The output; its suffix names the format. - is standard output.")],
    encoding: shared.Encoding = None,
    source_format: shared.SourceFormat = None,
    to: shared.TargetFormat = None,
    column: shared.ColumnName = None,
    sidecar: shared.Sidecar = True,
    lenient: shared.Lenient = False,
    force: shared.Force = False,
    dry_run: shared.DryRun = False,
    sha256: shared.Sha256 = False,
    option: shared.Own = None,
    report: Annotated[
        str | None,
        typer.Option("--report", help="Measure what was lost (error, recall) and write it here: .html, .json, .txt."),
    ] = None,
    json: shared.Json = False,
) -> None:
    """Convert a file to another format or encoding, and print a receipt of what was kept and what was lost.

    Example:

        $ polyvec convert vectors.fbin vectors.npy --encoding float16
    """
    from polyvec.cli.terminal import progress
    from polyvec.verbs.convert import convert

    receipt = convert(
        source, target, source_format=source_format, lenient=lenient, encoding=encoding, format=to, column=column,
        sidecar=sidecar, overwrite=force, dry_run=dry_run, sha256=sha256, progress=progress(json),
        **shared.own_options(option),
    )  # fmt: skip
    shared.print_receipt(receipt, json=json)
    if report is not None and not dry_run:
        _report(source, target, to, column, report)


def _report(source: str, target: str, to: str | None, column: str | None, report: str) -> None:
    """Compare the new file with its source, by error and by recall."""
    from polyvec import formats
    from polyvec.cli.quality import write_page
    from polyvec.core.errors import InputError
    from polyvec.neighbors.quality import measure_quality

    if "-" in (source, target):
        raise InputError("--report reads both files again, and standard input and output cannot be; name files")
    with formats.open(target, format=to) as written:
        write_page(report, measure_quality(source, written, column=column))
