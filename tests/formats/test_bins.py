"""FBIN, IBIN and kin."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polyvec.core.collection import Collection
from polyvec.formats.bins import FORMAT, TYPES
from polyvec.testing import FormatSuite, Sample, vectors


class TestBins(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        for kind in ("fbin", "ibin", "u8bin", "i8bin", "f16bin", "dbin", "u32bin"):
            rows = vectors(5, 3, np.dtype(TYPES[kind]))
            yield Sample(kind, Collection.from_arrays(rows), suffix=f".{kind}")
        yield Sample("empty", Collection.from_arrays(vectors(0, 3)), suffix=".fbin")
        words = ["a", "naïve", "Σ", "", "last"]
        full = Collection.from_arrays(
            vectors(5, 3), vocab=words, ids=[5, 4, 3, 2, 2**40], metadata={"k": [1, None, "ü"]},
            records=[{"row": i, "text": "x" * i} for i in range(5)],
        )  # fmt: skip
        yield Sample("with all that goes into sidecars", full, suffix=".fbin")
        large = vectors(700, 3)
        large[3] = np.nan
        large[4] = np.inf
        yield Sample("large", Collection.from_arrays(large), suffix=".fbin")
