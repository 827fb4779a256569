"""fvecs, ivecs and bvecs, through the suite that every format inherits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from polyvec.core.collection import Collection
from polyvec.formats.vecs import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors


class TestVecs(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterable[Sample]:
        yield Sample("floats", Collection.from_arrays(vectors(9, 5)))
        yield Sample("integers", Collection.from_arrays(vectors(4, 3, np.int32)), suffix=".ivecs")
        yield Sample("bytes", Collection.from_arrays(vectors(5, 7, np.uint8)), suffix=".bvecs")
        yield Sample("one row", Collection.from_arrays(vectors(1, 3)))
