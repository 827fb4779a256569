"""polyvec truth: exact neighbours of every query, as a ground-truth file."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    base: Annotated[str, typer.Argument(help="The base: a file of any format, or a glob of shards.")],
    queries: Annotated[str, typer.Argument(help="A file of queries.")],
    output: Annotated[str | None, flags.output("a file; .ibin, .truth, .hdf5 name the style")] = None,
    check: Annotated[
        str | None, typer.Option("--check", help="Check this ground truth instead of computing one.")
    ] = None,
    k: Annotated[int | None, flags.neighbours("100 by default, or all rows of fewer")] = None,
    metric: Annotated[str | None, flags.metrics("ip, cosine or l2; needed where no file states its own")] = None,
    style: Annotated[
        str | None,
        typer.Option("--style", help="ids, big-ann (ids and distances in one file), cuvs (two files) or hdf5."),
    ] = None,
    restart: flags.Restart = False,
    force: flags.Force = False,
    threads: flags.Threads = None,
    json: flags.Json = False,
) -> None:
    """Compute the exact neighbours of every query and write them; a killed run is taken up where it was.

    With --check, tell whether a ground truth is of this base and these queries: every listed neighbour is scored again,
    distances must be those that such a file holds, and queries are searched again, all of them where that is cheap.

    Example:

        $ polyvec truth vectors.fbin queries.fbin -o gt.ibin --k 10 --metric l2
    """
    from polyvec.cli.terminal import note, print_json, progress
    from polyvec.core.errors import InputError
    from polyvec.core.journal import exists
    from polyvec.neighbors.truth import write_truth
    from polyvec.neighbors.truth_check import verify_truth

    if (output is None) == (check is None):
        raise InputError("give either --output to compute a ground truth or --check to check one")
    if check is not None:
        held = verify_truth(base, queries, check, metric=metric, threads=threads, progress=progress(json))
        if json:
            return print_json(held.to_dict())
        near = f"distances are {held.distances}" if held.distances else "it holds no distances"
        print(
            f"{check}: is of this base and these queries ({held.metric}, {held.metric_from}); all {held.queries:,} x "
            f"{held.k} neighbours scored again, {near}, {held.searched:,} of {held.queries:,} queries searched exactly"
        )
        for line in held.notes:
            note(f"note: {line}")
        return None
    assert output is not None
    if not force and exists(output):
        raise InputError(f"{output}: the output exists; use --force to replace it")
    receipt = write_truth(
        base,
        queries,
        output,
        k=k,
        metric=metric,
        style=style,
        check_space=not force,
        resume=not restart,
        threads=threads,
        progress=progress(json),
    )
    if json:
        return print_json(receipt.to_dict())
    again = f", taken up at row {receipt.resumed_at:,}" if receipt.resumed_at else ""
    print(
        f"wrote {' and '.join(receipt.outputs)}: {receipt.queries:,} queries x {receipt.k} of {receipt.base_rows:,} "
        f"rows, {receipt.metric} ({receipt.metric_from}), "
        f"{f'distances {receipt.distances}' if receipt.distances else 'ids alone'}, {receipt.seconds:.2f} s{again}"
    )
    if receipt.sidecars:
        print(f"  beside it: {', '.join(receipt.sidecars)}")
    for line in receipt.notes:
        note(f"note: {line}")
    return None
