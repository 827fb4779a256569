"""Receipts in words: what was written, what was lost, and nothing into the stream that carries data."""

from __future__ import annotations

import json

import pytest

from polyvec.cli.receipts import print_receipt, print_receipts
from polyvec.writing.loss import Loss
from polyvec.writing.receipts import Receipt

EXACT = {"rows": 5, "exact": True, "max_error": 0.0, "mean_error": 0.0, "min_cosine": 1.0}


def receipt(output: str = "out.npy", **parts: object) -> Receipt:
    fields = {name: value for name, value in EXACT.items() if name in Loss.__dataclass_fields__}
    given = {
        "format": "npy",
        "rows": 1234,
        "dim": 8,
        "bytes": 20_000,
        "seconds": 0.5,
        "codec": "raw float32",
        "loss": Loss(**fields),
    }
    return Receipt(output, **{**given, **parts})  # type: ignore[arg-type]


def test_a_receipt_is_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_receipt(receipt(sidecars=("a.ids.npy",), dropped=("norms",), notes=("odd",), sha256="ff"), json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "wrote out.npy: npy, 1,234 x 8, raw float32, 20.0 kB in 0.50 s (40.0 kB/s)"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["exact", "beside it", "left out", "note", "sha256"]


def test_a_dry_run_has_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    print_receipt(receipt(dry_run=True, loss=None), json=False)
    assert capsys.readouterr().out == "would write out.npy: npy, 1,234 x 8, raw float32\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_standard_output_stays_for_the_data(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    print_receipt(receipt("-"), json=as_json)
    told = capsys.readouterr()
    assert told.out == "" and told.err


def test_several_are_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_receipts([receipt("a.npy"), receipt("b.npy")], json=True)
    assert [told["output"] for told in json.loads(capsys.readouterr().out)] == ["a.npy", "b.npy"]
