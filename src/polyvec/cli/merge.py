"""polyvec merge: shards into one file."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import receipts as shared


def command(
    inputs: Annotated[list[str], typer.Argument(help="Files and globs, in order; a glob is taken in shard order.")],
    output: Annotated[str, typer.Option("--output", "-O", help="The merged file.")],
    source_format: shared.SourceFormat = None,
    to: shared.TargetFormat = None,
    encoding: shared.Encoding = None,
    sidecar: shared.Sidecar = True,
    strict: Annotated[bool, typer.Option(help="Refuse gaps and duplicates in shard numbers.")] = False,
    lenient: shared.Lenient = False,
    resume: shared.Resume = False,
    force: shared.Force = False,
    dry_run: shared.DryRun = False,
    sha256: shared.Sha256 = False,
    option: shared.Own = None,
    json: shared.Json = False,
) -> None:
    """Merge shards of one kind into one file. Sources are never touched, the output appears whole or not at all.

    Example:

        $ polyvec merge 'shard-*.fbin' --output all.fbin --sha256
    """
    from polyvec.cli.terminal import progress
    from polyvec.verbs.merge import merge

    receipt = merge(
        inputs,
        output,
        source_format=source_format,
        lenient=lenient,
        strict=strict,
        resume=resume,
        encoding=encoding,
        format=to,
        sidecar=sidecar,
        overwrite=force,
        dry_run=dry_run,
        sha256=sha256,
        progress=progress(json),
        **shared.own_options(option),
    )
    shared.print_receipt(receipt, json=json)
