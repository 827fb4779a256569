"""Range ground truth, through the suite that every format inherits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from polyvec.core.collection import Collection
from polyvec.formats.ranges import FORMAT
from polyvec.testing import FormatSuite, Sample


class TestRanges(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        counts = np.array([3, 0, 1, 7], np.int32)
        ids, near = np.arange(11, dtype=np.int32), np.arange(11, dtype=np.float32)
        arrays = {"ids": ids, "counts": counts, "distances": near}
        yield Sample("ids and distances", Collection.from_arrays(arrays))
        yield Sample("ids alone", Collection.from_arrays({"ids": ids, "counts": counts}), suffix=".rangetruth")
        none = {"ids": ids[:0], "counts": np.zeros(2, np.int32)}
        yield Sample("nothing in range", Collection.from_arrays(none))
