"""Receipts: what was written, as plain values that do not change."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyvec as pv
from polyvec.testing import vectors
from polyvec.writing.loss import compare
from polyvec.writing.receipts import Receipt

ROWS = vectors(5, 3)


def test_the_receipt_says_what_is_on_disk(tmp_path: Path) -> None:
    receipt = pv.write(tmp_path / "a.fbin", ROWS, ids=range(5), sha256=True, durable=False)
    assert isinstance(receipt, Receipt) and (receipt.rows, receipt.dim) == (5, 3)
    assert receipt.bytes == (tmp_path / "a.fbin").stat().st_size and receipt.sidecars == ("a.fbin.ids.npy",)
    told = receipt.to_dict()
    assert told["loss"]["exact"] is True and told["sha256"] == receipt.sha256 and not told["dry_run"]


def receipt(**more: Any) -> Receipt:
    given = {"output": "a.fbin", "format": "bins", "rows": 5, "dim": 3, "bytes": 68, "seconds": 0.5}
    return Receipt(**{**given, "codec": "raw float32", "loss": None, **more})


def test_a_receipt_is_plain_values_for_json() -> None:
    loss = compare(ROWS, ROWS.astype(np.float16).astype(np.float32))
    told = receipt(loss=loss, sidecars=("a.fbin.ids.npy",), column_losses={"w": loss}).to_dict()
    back = json.loads(json.dumps(told))
    assert set(back) == {field.name for field in fields(Receipt)}
    assert back["loss"]["exact"] is False and back["column_losses"]["w"] == back["loss"]
    assert back["sidecars"] == ["a.fbin.ids.npy"] and back["dropped"] == [] and back["sha256"] is None


def test_a_receipt_does_not_change_and_two_share_nothing() -> None:
    one, two = receipt(), receipt()
    assert one == two and one.column_losses is not two.column_losses
    with pytest.raises(FrozenInstanceError):
        one.rows = 6  # type: ignore[misc]


def test_a_dry_run_says_so_and_leaves_no_digest(tmp_path: Path) -> None:
    found = pv.write(tmp_path / "a.fbin", ROWS, dry_run=True)
    assert found.dry_run and found.sha256 is None and not list(tmp_path.iterdir())
    assert found.to_dict()["dry_run"] is True and (found.rows, found.dim) == (5, 3)
