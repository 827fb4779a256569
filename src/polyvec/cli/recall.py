"""polyvec recall: how many of the true neighbours a result found."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    result: Annotated[
        str, typer.Argument(help="The ids that a search found, one row a query (.ibin, .truth, .hdf5…).")
    ],
    truth: Annotated[str, typer.Argument(help="The ground truth.")],
    k: Annotated[str | None, flags.neighbours(f"{flags.MANY}; 1, 10 and 100 where both list so many")] = None,
    base: Annotated[
        str | None, typer.Option("--base", help="The base: checks ids and, with --queries, finds ties.")
    ] = None,
    queries: Annotated[str | None, flags.query_file("to find ties by distance")] = None,
    metric: Annotated[
        str | None, flags.metrics("ip, cosine or l2; needed where distances take part and no file states its own")
    ] = None,
    json: flags.Json = False,
) -> None:
    """Compare a result with a ground truth: recall at each k with its 95 % interval, fair to ties.

    Example:

        $ polyvec recall result.ibin truth.ibin --k 1,10
    """
    from polyvec.cli.terminal import note, print_json, table
    from polyvec.core.errors import InputError
    from polyvec.reports.recall import measure_recall

    try:
        asked = None if k is None else [int(part) for part in k.split(",")]
    except ValueError:
        raise InputError(f"--k takes whole numbers by commas, not {k!r}") from None
    found = measure_recall(result, truth, k=asked, base=base, queries=queries, metric=metric)
    if json:
        return print_json(found.to_dict())
    rows = [
        (
            f"recall@{one.k}",
            f"{one.recall:.4f}",
            f"{one.low:.4f} to {one.high:.4f}",
            f"{one.perfect:,}/{one.queries:,}",
            one.ties,
        )
        for one in found
    ]
    compared = "ids alone; no distances" if found.metric is None else f"{found.metric}, {found.metric_from}"
    print(f"compared by: {compared}")
    print(table(("", "mean", "95 % interval", "perfect", "by ties"), rows, right=(1, 3, 4)))
    for line in found.notes:
        note(f"note: {line}")
    return None
