"""polyvec sample: some rows of a file."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    source: Annotated[str, typer.Argument(help="The file to sample.")],
    target: Annotated[str | None, typer.Argument(help="The output; its suffix names the format.")] = None,
    output: flags.Output = None,
    head: Annotated[int | None, typer.Option(help="The first N rows.")] = None,
    range: Annotated[str | None, typer.Option("--range", metavar="START:STOP", help="Rows START to STOP - 1.")] = None,
    random: Annotated[int | None, typer.Option(help="N rows at random, in file order.")] = None,
    stride: Annotated[int | None, typer.Option(help="Every N-th row.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most N rows, with --stride.")] = None,
    seed: Annotated[int, flags.seed("which rows --random takes")] = 0,
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
    """Write some rows of a file: the first, a range, random ones by seed, or every N-th.

    Example:

        $ polyvec sample vectors.fbin few.fbin --random 10 --seed 7
    """
    from polyvec.cli.receipts import print_receipt
    from polyvec.cli.terminal import progress
    from polyvec.verbs.split import sample

    receipt = sample(
        source,
        flags.one_output(target, output),
        head=head,
        range=_bounds(range),
        random=random,
        stride=stride,
        seed=seed,
        limit=limit,
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
    print_receipt(receipt, json=json)


def _bounds(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    from polyvec.core.errors import InputError

    start, colon, stop = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return int(start or 0), int(stop) if stop else 2**63 - 1
    except ValueError:
        raise InputError(f"--range takes START:STOP, not {text!r}") from None
