"""How the writing commands speak: the options they share and the receipt they print. Not a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

SourceFormat = Annotated[str | None, typer.Option("--from", help="Read the input as this format (fbin, npy…).")]
TargetFormat = Annotated[
    str | None, typer.Option("--to", "--format", help="Write this format, whatever the suffix says.")
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", "-e", help="raw, float16, bfloat16, int8, pq or lossless; kept as it is by default."),
]
ColumnName = Annotated[str | None, typer.Option("--column", help="Convert this column only.")]
Sidecar = Annotated[bool, typer.Option(help="Keep beside the output what it cannot hold (words, records, ids).")]
Lenient = Annotated[bool, typer.Option(help="Take the whole rows of a file whose end is missing.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output if it exists.")]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Keep finished parts beside the output until all are done; run again to continue."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")]
Sha256 = Annotated[bool, typer.Option("--sha256", help="Print the output's SHA-256.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Own = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="NAME=VALUE", help="An option of the output's format, such as layout=versioned."
    ),
]


def own_options(pairs: list[str] | None) -> dict[str, Any]:
    """``--option name=value`` pairs; values are numbers, true and false, or text."""
    from polyvec.core.errors import InputError

    found: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--option takes NAME=VALUE, not {pair!r}")
        found[name.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def print_receipts(receipts: list[Any], *, json: bool) -> None:
    """Several conversions, as one JSON list or one after the other."""
    from polyvec.cli.terminal import print_json

    if json:
        return print_json([receipt.to_dict() for receipt in receipts])
    for receipt in receipts:
        print_receipt(receipt, json=False)
    return None


def print_receipt(receipt: Any, *, json: bool) -> None:
    """What a conversion did, in two or three lines or as JSON."""
    from polyvec.cli.terminal import note, print_json, size

    if json:
        return print_json(receipt.to_dict())
    # To standard output goes the data, so the receipt goes to standard error.
    say: Callable[[str], None] = note if receipt.output == "-" else print
    verb = "would write" if receipt.dry_run else "wrote"
    rate = ""
    if not receipt.dry_run:
        rate = (
            f", {size(receipt.bytes)} in {receipt.seconds:.2f} s ({size(receipt.bytes / max(receipt.seconds, 1e-9))}/s)"
        )
    say(f"{verb} {receipt.output}: {receipt.format}, {receipt.rows:,} x {receipt.dim:,}, {receipt.codec}{rate}")
    if receipt.loss is not None:
        loss = receipt.loss
        if loss.exact:
            say(f"  exact: all values of {loss.rows:,} compared rows are the same")
        else:
            say(
                f"  loss: max error {loss.max_error:.3g}, mean {loss.mean_error:.3g}, "
                f"worst cosine {loss.min_cosine:.7f} "
                f"({loss.rows:,} rows compared)"
            )
    if receipt.sidecars:
        say(f"  beside it: {', '.join(receipt.sidecars)} (--no-sidecar leaves them out)")
    if receipt.dropped:
        say(f"  left out: {', '.join(receipt.dropped)}")
    for line in receipt.notes:
        say(f"  note: {line}")
    if receipt.sha256:
        say(f"  sha256: {receipt.sha256}")
    return None
