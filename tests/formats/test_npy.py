"""NumPy's .npy."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from polyvec.core.collection import Collection
from polyvec.formats.npy import FORMAT
from polyvec.testing import FormatSuite, Sample, vectors


class TestNpy(FormatSuite):
    format = FORMAT

    def samples(self) -> Iterator[Sample]:
        for dtype in ("f2", "f4", "f8", "i1", "i8", "u2"):
            yield Sample(dtype, Collection.from_arrays(vectors(5, 3, np.dtype(dtype))))
        yield Sample("booleans", Collection.from_arrays(vectors(5, 3) > 0))
        yield Sample("bfloat16", Collection.from_arrays(vectors(5, 3, ml_dtypes.bfloat16)))
        yield Sample("one dimension", Collection.from_arrays(np.arange(6, dtype=np.int64)))
        yield Sample("three dimensions", Collection.from_arrays(vectors(4, 6).reshape(4, 3, 2)))
        yield Sample("no rows", Collection.from_arrays(vectors(0, 3)))
        rows = vectors(5, 3)
        half = Collection.from_arrays(rows.astype(np.float16))
        yield Sample("asked for float16", Collection.from_arrays(rows), encoding="float16", expected=half)
        full = Collection.from_arrays(rows, vocab=["a", "b\nc", "d", "e", "f"], ids=list("vwxyz"))
        yield Sample("words with line breaks", full)

    def hostile_files(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        for shape in (b"(0, 4611686018427387904)", b"(4611686018427387904, 0)", b"(18446744073709551616,)", b"(-5, 3)",
                      b"(2, 0)", b"()", b"(1e3, 3)", b"(True, 3)", b"(5, 3" + b", 1" * 40 + b")"):  # fmt: skip
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", }"
            header += b" " * (-(len(header) + 11) % 64) + b"\n"
            yield shape.decode(), b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data[-60:]
