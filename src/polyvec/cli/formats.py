"""polyvec formats: what can be read and written, and what a conversion keeps."""

from __future__ import annotations

from typing import Annotated

import typer

from polyvec.cli import flags


def command(
    matrix: Annotated[bool, typer.Option("--matrix", help="Show for each pair what a conversion keeps.")] = False,
    json: flags.Json = False,
) -> None:
    """List the formats; with --matrix, show for each pair if a conversion is exact, by sidecar, lossy or impossible.

    Example:

        $ polyvec formats --matrix
    """
    from polyvec.cli.terminal import print_json, table
    from polyvec.verbs.matrix import conversion_matrix, list_formats

    if matrix:
        pairs = conversion_matrix()
        if json:
            return print_json(pairs)
        names = sorted(pairs)
        print(table(["from \\ to", *names], [[a, *(pairs[a][b] for b in names)] for a in names]))
        print("\nexact: all is kept · sidecar: words, records or ids go into files beside the output ·")
        print("column: one of several columns must be chosen · lossy: values are rounded, as the name asks ·")
        print("own: where the source has the columns the target is for (ids, counts, distances) · -: cannot be")
        return None
    rows = list_formats()
    if json:
        return print_json(rows)
    yes = {True: "yes", False: "no"}
    print(
        table(
            ["format", "what", "suffixes", "write", "columns", "words", "records", "ids", "encodings"],
            [
                [
                    r["name"],
                    r["title"],
                    " ".join(r["suffixes"]),
                    yes[r["writable"]],
                    "many" if r["many_columns"] else "one",
                    yes[r["vocab"]],
                    yes[r["records"]],
                    yes[r["ids"]],
                    " ".join(r["encodings"]),
                ]
                for r in rows
            ],
        )
    )
    return None
