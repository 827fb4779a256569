"""The receipt that writing commands print. Not a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def print_receipts(receipts: list[Any], *, json: bool) -> None:
    """Several outputs of one command, as one JSON list or one after the other."""
    from polyvec.cli.terminal import print_json

    if json:
        return print_json([receipt.to_dict() for receipt in receipts])
    for receipt in receipts:
        print_receipt(receipt, json=False)
    return None


def speaker(output: str) -> Callable[[str], None]:
    """How to speak to the person: where standard output takes the data, on standard error."""
    from polyvec.cli.terminal import note

    return note if output == "-" else print


def print_values(values: Any, output: str) -> None:
    """JSON about an output: on standard error where standard output takes the data, for two in one stream are neither."""
    import sys

    from polyvec.cli.terminal import print_json

    print_json(values, file=sys.stderr if output == "-" else None)


def print_receipt(receipt: Any, *, json: bool) -> None:
    """What a conversion did, in two or three lines or as JSON."""
    from polyvec.cli.terminal import size

    if json:
        return print_values(receipt.to_dict(), receipt.output)
    say = speaker(receipt.output)
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
    for name, loss in receipt.column_losses.items():
        say(
            f"  column {name}: max error {loss.max_error:.3g}, mean {loss.mean_error:.3g} ({loss.rows:,} rows compared)"
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
