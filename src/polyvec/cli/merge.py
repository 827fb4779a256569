"""polyvec merge: shards into one file."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    inputs: Annotated[list[str], typer.Argument(help="Files and globs, in order; a glob is taken in shard order.")],
    output: Annotated[str, flags.output("the merged file")],
    source_format: flags.SourceFormat = None,
    to: flags.TargetFormat = None,
    encoding: flags.Encoding = None,
    ids: flags.Ids = None,
    records: flags.Records = None,
    sidecar: flags.Sidecar = True,
    strict: Annotated[bool, flags.strict("gaps or duplicates in shard numbers")] = False,
    lenient: flags.Lenient = False,
    resume: flags.Resume = False,
    force: flags.Force = False,
    dry_run: flags.DryRun = False,
    sha256: flags.Sha256 = False,
    dim: flags.Dim = None,
    option: flags.Own = None,
    duplicates: flags.Duplicates = None,
    json: flags.Json = False,
) -> None:
    """Merge shards of one kind into one file. Sources are never touched, the output appears whole or not at all.

    Example:

        $ polyvec merge 'shard-*.fbin' --output all.fbin --sha256
    """
    from polyvec.cli.receipts import print_receipt
    from polyvec.cli.terminal import progress
    from polyvec.verbs.merge import merge

    receipt = merge(
        inputs,
        output,
        source_format=source_format,
        lenient=lenient,
        strict=strict,
        resume=resume,
        ids=ids,
        records=records,
        encoding=encoding,
        format=to,
        sidecar=sidecar,
        overwrite=force,
        check_space=not force,
        dry_run=dry_run,
        sha256=sha256,
        progress=progress(json),
        options=flags.own_options(option, dim) | ({} if duplicates is None else {"duplicates": duplicates}),
    )
    print_receipt(receipt, json=json)
