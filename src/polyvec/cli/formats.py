"""polyvec formats: what can be read and written, and what a conversion keeps."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyvec.cli import flags


def command(
    matrix: Annotated[bool, typer.Option("--matrix", help="Show for each pair what a conversion keeps.")] = False,
    json: flags.Json = False,
) -> None:
    """List the formats and their options; with --matrix, show for each pair what a conversion keeps: all, by sidecar, some.

    Example:

        $ polyvec formats --matrix
    """
    from polyvec.cli.terminal import print_json, table
    from polyvec.verbs.matrix import conversion_matrix, list_formats

    rows = list_formats()
    if matrix:
        pairs = conversion_matrix()
        if json:
            return print_json(pairs)
        names = [r["name"] for r in rows]
        shown = [[r["name"], *(pairs[r["name"]][b] for b in names), _dtypes(r)] for r in rows]
        print(table(["from \\ to", *names, "dtypes"], shown))
        print("\nexact: all is kept · sidecar: words, records or ids go into files beside the output ·")
        print("column: one of several columns must be chosen · lossy: values are rounded, as the name asks ·")
        print("own: where the source has the columns the target is for (ids, counts, distances) · -: cannot be")
        print("dtypes: of the rows it holds; ~ rows of others are rounded to them, and the receipt says so")
        return None
    if json:
        return print_json(rows)
    yes = {True: "yes", False: "no"}
    print(
        table(
            [
                "format",
                "what",
                "suffixes",
                "aliases",
                "write",
                "columns",
                "words",
                "records",
                "ids",
                "encodings",
                "dtypes",
            ],
            [
                [
                    r["name"],
                    r["title"],
                    " ".join(r["suffixes"]),
                    " ".join(alias for alias in r["aliases"] if alias != r["name"]),
                    yes[r["writable"]],
                    "many" if r["many_columns"] else "one",
                    yes[r["vocab"]],
                    yes[r["records"]],
                    yes[r["ids"]],
                    " ".join(r["encodings"]),
                    _dtypes(r),
                ]
                for r in rows
            ],
        )
    )
    print("\nOptions of formats, given to polyvec convert as --option NAME=VALUE:\n")
    print(table(["format", "to", "option", "value", "what it does"], [line for r in rows for line in _options(r)]))
    return None


def _dtypes(row: dict[str, Any]) -> str:
    """The dtypes of the rows that a format holds, in words."""
    return f"{'~ ' if row['casts'] else ''}{row['dtypes_named']}"


def _options(row: dict[str, Any]) -> list[list[str]]:
    """A line for each option of a format."""
    return [
        [
            row["name"],
            way,
            option["name"],
            "|".join(map(str, option["choices"])) or option["kind"],
            option["help"] + (f" ({option['default']} unless told)" if option["default"] is not None else ""),
        ]
        for way, options in (("read", row["reading"]), ("write", row["options"]))
        for option in options
    ]
