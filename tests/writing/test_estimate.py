"""Estimates: rather too few bytes than too many, and near the truth for what is stored as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyvec as pv
from polyvec.core.collection import Collection
from polyvec.testing import vectors
from polyvec.writing.estimate import estimate_bytes

ROWS = vectors(1000, 32)


@pytest.mark.parametrize(
    ("target", "bytes_a_value"),
    [
        ("raw float32", 4),
        ("raw float64", 8),
        ("raw bfloat16", 2),
        ("float16", 2),
        ("int8", 1),
        ("pq", 0),
        ("lossless", 2),
        ("raw float32, zstd", 2),
        ("raw float32 as text", 4),
    ],
)
def test_a_value_takes_the_bytes_of_its_target(target: str, bytes_a_value: int) -> None:
    assert estimate_bytes(Collection.from_arrays(ROWS), target, []) == ROWS.size * bytes_a_value


def test_other_columns_stay_as_they_are() -> None:
    both = Collection.from_arrays({"v": ROWS, "n": np.zeros(1000, np.int64)})
    assert estimate_bytes(both, "int8", []) == ROWS.size + 8000


def test_what_goes_beside_is_counted_only_then() -> None:
    both = Collection.from_arrays(ROWS, vocab=["ab"] * 1000, ids=np.arange(1000))
    plain = estimate_bytes(both, "raw float32", [])
    assert estimate_bytes(both, "raw float32", ["words", "ids"]) == plain + 3000 + 8000


@pytest.mark.parametrize("name", ["a.fbin", "a.npy", "a.f16bin", "a.i8.cvc", "a.txt", "a.cvc"])
def test_no_file_is_smaller_than_its_estimate(tmp_path: Path, name: str) -> None:
    options = {"encoding": "int8"} if "i8" in name else {}
    receipt = pv.write(tmp_path / name, ROWS, durable=False, sidecar=False, **options)
    target = receipt.codec.split(" -> ")[-1]
    assert estimate_bytes(Collection.from_arrays(ROWS), target, []) <= receipt.bytes
