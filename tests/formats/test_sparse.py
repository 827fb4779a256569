"""Sparse matrices, through the suite that every format inherits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from polyvec.core.collection import Collection
from polyvec.formats.sparse import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors


class TestSparse(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        rows = vectors(9, 6)
        rows[np.abs(rows) < 0.8] = 0
        yield Sample("dense rows", Collection.from_arrays(rows))
        yield Sample("nothing but zeros", Collection.from_arrays(np.zeros((3, 4), np.float32)), suffix=".spmat")
        yield Sample("no rows", Collection.from_arrays(np.empty((0, 4), np.float32)))
        parts = {"indptr": np.array([0, 2, 3]), "indices": np.array([1, 2, 0], np.int32), "data": vectors(1, 3)[0]}
        dense = np.zeros((2, 4), np.float32)
        dense[[0, 0, 1], parts["indices"]] = parts["data"]
        yield Sample(
            "the three parts",
            Collection.from_arrays(parts, metadata={"shape": [2, 4]}),
            expected=Collection.from_arrays({"vectors": dense, **parts}),
        )
