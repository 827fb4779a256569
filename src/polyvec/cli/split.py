"""polyvec split: one file into shards."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    source: Annotated[str, typer.Argument(help="The file to split.")],
    target: Annotated[
        str | None, typer.Argument(help="Names the shards: out.fbin gives out-00000-of-00003.fbin…")
    ] = None,
    output: flags.Output = None,
    rows: Annotated[int | None, flags.row_count("in a shard")] = None,
    parts: Annotated[int | None, typer.Option(help="Number of shards, nearly equal.")] = None,
    source_format: flags.SourceFormat = None,
    to: flags.TargetFormat = None,
    encoding: flags.Encoding = None,
    sidecar: flags.Sidecar = True,
    lenient: flags.Lenient = False,
    force: flags.Force = False,
    dry_run: flags.DryRun = False,
    sha256: flags.Sha256 = False,
    dim: flags.Dim = None,
    option: flags.Own = None,
    json: flags.Json = False,
) -> None:
    """Split a file into numbered shards, by rows or into parts.

    Example:

        $ polyvec split vectors.fbin part.fbin --parts 3
    """
    from polyvec.cli.receipts import print_receipts
    from polyvec.cli.terminal import progress
    from polyvec.verbs.split import split

    made = split(
        source,
        flags.one_output(target, output),
        rows=rows,
        parts=parts,
        source_format=source_format,
        lenient=lenient,
        encoding=encoding,
        format=to,
        sidecar=sidecar,
        overwrite=force,
        check_space=not force,
        dry_run=dry_run,
        sha256=sha256,
        progress=progress(json),
        options=flags.own_options(option, dim),
    )
    print_receipts(made, json=json)
