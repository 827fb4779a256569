"""polyvec convert: any format into any other."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    source: Annotated[str, typer.Argument(help="A file, a glob of shards, or - for standard input.")],
    target: Annotated[
        str | None, typer.Argument(help="The output; its suffix names the format. - is standard output.")
    ] = None,
    output: flags.Output = None,
    encoding: flags.Encoding = None,
    source_format: flags.SourceFormat = None,
    to: flags.TargetFormat = None,
    column: flags.ColumnName = None,
    ids: flags.Ids = None,
    records: flags.Records = None,
    sidecar: flags.Sidecar = True,
    lenient: flags.Lenient = False,
    queries: Annotated[
        str | None, flags.query_file("a benchmark's; an input, or an output where the source has them")
    ] = None,
    truth: Annotated[str | None, typer.Option("--truth", help="Its ground truth: ids, or ids and distances.")] = None,
    distances: Annotated[str | None, typer.Option("--distances", help="A file of their own for the distances.")] = None,
    metric: Annotated[str | None, flags.metrics("euclidean, angular, ip… (with --queries and --truth)")] = None,
    resume: flags.Resume = False,
    force: flags.Force = False,
    dry_run: flags.DryRun = False,
    sha256: flags.Sha256 = False,
    dim: flags.Dim = None,
    option: flags.Own = None,
    duplicates: flags.Duplicates = None,
    report: flags.Report = None,
    json: flags.Json = False,
) -> None:
    """Convert a file to another format or encoding, and print a receipt of what was kept and what was lost.

    With --report, also measure the loss by recall, and write it as a page.

    Example:

        $ polyvec convert vectors.fbin vectors.npy --encoding float16

        $ polyvec convert vectors.fbin vectors.parquet --ids name

        $ polyvec convert vectors.fbin --queries queries.fbin --truth truth.ibin benchmark.hdf5 --metric cosine
    """
    from polyvec.cli.receipts import print_receipt, print_receipts, print_values
    from polyvec.cli.reports import check_report
    from polyvec.cli.terminal import progress
    from polyvec.core.errors import InputError
    from polyvec.verbs.convert import convert

    target = flags.one_output(target, output)
    check_report(report, source, target)
    if report is not None and "-" in (source, target):
        raise InputError("--report reads both files again, and standard input and output cannot be; name files")
    options = {
        "source_format": source_format,
        "lenient": lenient,
        "encoding": encoding,
        "format": to,
        "sidecar": sidecar,
        "overwrite": force,
        "check_space": not force,
        "dry_run": dry_run,
        "sha256": sha256,
        "progress": progress(json),
        **flags.own_options(option, dim),
        **({} if duplicates is None else {"duplicates": duplicates}),
    }
    if queries is not None or truth is not None or distances is not None:
        from polyvec.verbs.benchmark import convert_bundle

        if resume or any(given is not None for given in (column, report, ids, records)):
            raise InputError(
                "--queries, --truth and --distances go without --resume, --column, --ids, --records and --report"
            )
        receipts = convert_bundle(
            source, target, queries=queries, truth=truth, distances=distances, metric=metric, **options
        )
        if not json:
            return print_receipts(receipts, json=False)
        main = next(receipt for receipt in receipts if receipt.output == target)
        others = [receipt.to_dict() for receipt in receipts if receipt is not main]
        return print_values({**main.to_dict(), "others": others}, target)
    if metric is not None:
        raise InputError("--metric belongs to --queries and --truth")
    receipt = convert(source, target, column=column, resume=resume, ids=ids, records=records, **options)
    if json:
        print_values({**receipt.to_dict(), "others": []}, target)
    else:
        print_receipt(receipt, json=False)
    if report is not None and not dry_run:
        _report(source, target, to, column, report, progress(json))
    return None


def _report(source: str, target: str, to: str | None, column: str | None, report: str, bar: Any) -> None:
    """Compare the new file with its source, by error and by recall."""
    from polyvec import formats
    from polyvec.cli.quality import write_quality
    from polyvec.reports.quality import measure_quality

    with formats.open(target, format=to) as written:
        write_quality(report, measure_quality(source, written, column=column, progress=bar))
