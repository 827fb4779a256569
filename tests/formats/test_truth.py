"""Ground truth, through the suite that every format inherits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from polyvec.core.collection import Collection
from polyvec.formats.truth import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors


class TestTruth(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        ids = np.abs(vectors(6, 4, np.int32))
        yield Sample("ids and distances", Collection.from_arrays({"ids": ids, "distances": vectors(6, 4)}))
        yield Sample("ids alone", Collection.from_arrays({"ids": ids}), suffix=".gt")
        yield Sample("unsigned", Collection.from_arrays({"ids": vectors(3, 2, np.uint32)}), format="diskann")
        yield Sample("no queries", Collection.from_arrays({"ids": np.empty((0, 5), np.int32)}))
