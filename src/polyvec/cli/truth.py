"""polyvec truth: exact neighbours of every query, as a ground-truth file."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    base: Annotated[str, typer.Argument(help="The base: a file of any format, or a glob of shards.")],
    queries: Annotated[str, typer.Argument(help="A file of queries.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", "-O", help="The file to write; .ibin, .truth, .hdf5 name the style.")
    ] = None,
    check: Annotated[
        str | None, typer.Option("--check", help="Check this ground truth instead of computing one.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Neighbours of each query.")] = 100,
    metric: Annotated[str, typer.Option("--metric", "-m", help="ip, cosine or l2.")] = "l2",
    style: Annotated[
        str | None,
        typer.Option("--style", help="ids, big-ann (ids and distances in one file), cuvs (two files) or hdf5."),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Take up a killed run where it was saved.")] = True,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the output if it exists.")] = False,
    threads: Annotated[int | None, typer.Option(help="Threads; as many as there are cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute the exact neighbours of every query and write them; a killed run is taken up where it was.

    With --check, tell whether a ground truth is of this base and these queries: every id must be a row of the base,
    and a sample of the queries is searched again.

    Example:

        $ polyvec truth vectors.fbin queries.fbin -o gt.ibin --k 10
    """
    from pathlib import Path

    from polyvec.cli.terminal import print_json, progress
    from polyvec.core.errors import InputError
    from polyvec.neighbors.truth import verify_truth, write_truth

    if (output is None) == (check is None):
        raise InputError("give either --output to compute a ground truth or --check to check one")
    if check is not None:
        verify_truth(base, queries, check, metric=metric, threads=threads)
        if json:
            return print_json({"ok": True, "truth": check})
        print(f"{check}: is of this base and these queries ({metric}); ids in range, sampled queries agree")
        return None
    assert output is not None
    if not force and Path(output).exists():
        raise InputError(f"{output}: the output exists; use --force to replace it")
    receipt = write_truth(
        base, queries, output, k=k, metric=metric, style=style, resume=resume, threads=threads, progress=progress(json)
    )
    if json:
        return print_json(receipt.to_dict())
    again = f", taken up at row {receipt.resumed_at:,}" if receipt.resumed_at else ""
    print(
        f"wrote {' and '.join(receipt.outputs)}: {receipt.queries:,} queries x {receipt.k} of {receipt.base_rows:,} "
        f"rows, {receipt.metric}, {receipt.seconds:.2f} s{again}"
    )
    return None
