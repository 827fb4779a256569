"""polyvec split: one file into shards."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import receipts as shared


def command(
    source: Annotated[str, typer.Argument(help="The file to split.")],
    target: Annotated[str, typer.Argument(help="Names the shards: out.fbin gives out-00000-of-00003.fbin…")],
    rows: Annotated[int | None, typer.Option(help="Rows in a shard.")] = None,
    parts: Annotated[int | None, typer.Option(help="Number of shards, nearly equal.")] = None,
    source_format: shared.SourceFormat = None,
    to: shared.TargetFormat = None,
    encoding: shared.Encoding = None,
    sidecar: shared.Sidecar = True,
    lenient: shared.Lenient = False,
    force: shared.Force = False,
    dry_run: shared.DryRun = False,
    sha256: shared.Sha256 = False,
    option: shared.Own = None,
    json: shared.Json = False,
) -> None:
    """Split a file into numbered shards, by rows or into parts.

    Example:

        $ polyvec split vectors.fbin part.fbin --parts 3
    """
    from polyvec.cli.terminal import print_json, progress
    from polyvec.verbs.split import split

    made = split(
        source, target, rows=rows, parts=parts, source_format=source_format, lenient=lenient, encoding=encoding,
        format=to, sidecar=sidecar, overwrite=force, dry_run=dry_run, sha256=sha256, progress=progress(json),
        **shared.own_options(option),
    )  # fmt: skip
    if json:
        return print_json([receipt.to_dict() for receipt in made])
    for receipt in made:
        shared.print_receipt(receipt, json=False)
    return None
