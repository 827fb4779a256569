"""Tests for formats, public: a new format subclasses `FormatSuite`, supplies samples, and inherits every check.

A format that is only read subclasses `ReadingSuite` and supplies files (`SampleFile`) in place of collections.

::

    class TestMine(FormatSuite):
        format = FORMAT

        def samples(self):
            yield Sample("floats", Collection.from_arrays(vectors(5, 3)), suffix=".mine")
            yield Sample("int8", Collection.from_arrays(vectors(5, 3)), encoding="int8", tolerance=0.01)

Keep sample files small: of a file of up to 2 KB every truncation and every bit flip is tried. Needs pytest;
`polyvec.testing.strategies` needs hypothesis.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "polyvec.testing.suite",
    "polyvec.testing.reading",
    "polyvec.testing.contents",
    "polyvec.testing.atomicity",
    "polyvec.testing.descriptors",
    "polyvec.testing.travelling",
)

from polyvec.core.sources import MemorySource  # noqa: E402
from polyvec.testing.memory import MemorySink  # noqa: E402
from polyvec.testing.reading import ReadingSuite  # noqa: E402
from polyvec.testing.samples import Sample, SampleFile, vectors  # noqa: E402
from polyvec.testing.suite import FormatSuite  # noqa: E402

__all__ = ["FormatSuite", "MemorySink", "MemorySource", "ReadingSuite", "Sample", "SampleFile", "vectors"]
