"""The matrix of conversions, for the formats of the field."""

from __future__ import annotations

from polyvec.verbs.matrix import conversion_matrix


def test_tables_keep_all_that_bins_puts_beside_them() -> None:
    found = conversion_matrix()
    assert found["bins"]["parquet"] == "exact" and found["parquet"]["hdf5"] == "sidecar"
    assert found["parquet"]["bins"] == "column" and found["parquet"]["arrow"] == "exact"


def test_ground_truth_takes_its_own_columns_only() -> None:
    found = conversion_matrix()
    assert found["bins"]["truth"] == found["npy"]["ranges"] == "own" and found["truth"]["truth"] == "exact"
