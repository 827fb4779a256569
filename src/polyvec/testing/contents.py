"""What a collection holds, read in full: compared with what was written, or only with itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.errors import FormatError
from polyvec.core.format import Format, Peek
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings
from polyvec.testing.samples import Sample, SampleFile


def consume(collection: Collection) -> None:
    """Read everything, and check that it agrees with what the collection says of itself."""
    for name, column in collection.columns.items():
        rows = column.to_numpy()
        assert rows.shape == column.shape, f"column {name!r} says {column.shape} and gives {rows.shape}"
        assert rows.dtype == column.dtype, f"column {name!r} says {column.dtype} and gives {rows.dtype}"
        if column.rows:
            assert np.asarray(column[-1]).shape == column.row_shape
    if collection.vocab is not None:
        assert len(collection.vocab) == collection.rows
        assert len(list(collection.vocab)) == collection.rows
    if collection.records is not None:
        assert len(collection.records) == collection.rows
        assert sum(1 for _ in collection.records) == collection.rows
    if collection.ids is not None:
        assert len(collection.ids) == collection.rows
        assert len(list(collection.ids)) == collection.rows
    assert isinstance(collection.metadata, dict)


def examine(
    format: Format, source: Source, *, variant: str, lenient: bool = False, own: Mapping[str, Any] | None = None
) -> bool:
    """Sniff, read, check and map a file; whether its damage was told. Only a `FormatError` may come out of it."""
    told, own = False, own or {}
    format = format.told(own) if own else format
    format.sniff(Peek(source))
    try:
        with format.open(source, variant=variant, lenient=lenient, **own) as collection:
            consume(collection)
    except FormatError as error:
        told = True
        assert "\n" not in str(error) and str(error), "an error is one line"
    try:
        told |= any(finding.severity == "error" for finding in format.check(source, variant=variant))
    except FormatError:
        told = True
    try:
        for span in format.layout(source, variant=variant):
            assert 0 <= span.offset <= span.offset + span.size <= source.size, f"{span} is not inside the file"
    except FormatError:
        told = True
    return told


def assert_same_contents(found: Collection, sample: Sample | SampleFile, *, held: bool = True) -> None:
    """The collection is what was written, within the sample's tolerance; ``held`` leaves sidecars out."""
    expected = sample.expected
    if expected is None:
        assert isinstance(sample, Sample), "a file to read says what is expected of it"
        expected = sample.collection
    if len(expected.columns) == 1:
        assert_same_column(found.vectors, expected.vectors, sample.allowed_error(expected.main))
    else:
        for name, column in expected.columns.items():
            assert name in found.columns, f"column {name!r} is gone; there are {list(found.columns)}"
            assert_same_column(found[name], column, sample.allowed_error(name))
    assert_same_extras(found, expected, held=held)


def assert_same_extras(found: Collection, expected: Collection, *, held: bool = True) -> None:
    """Words, records, ids and metadata are those written. A format may add metadata, not change any."""
    if expected.vocab is not None:
        assert found.vocab is not None, "the words are gone"
        assert list(found.vocab) == list(expected.vocab)
    if expected.records is not None:
        assert found.records is not None, "the records are gone"
        assert [dict(r) for r in found.records] == [dict(r) for r in expected.records]
        assert len(found.records) == found.rows
    if expected.ids is not None:
        assert found.ids is not None, "the ids are gone"
        assert plain_ids(found.ids) == plain_ids(expected.ids)
    for key, value in expected.metadata.items():
        assert found.metadata.get(key) == value, f"metadata {key!r}"


def assert_same_column(found: Column, expected: Column, tolerance: float) -> None:
    """Same shape, dtype and values; bit for bit (NaN is NaN, -0 is -0) where the tolerance is 0."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    one, two = found.to_numpy(), expected.to_numpy()
    if tolerance == 0:
        assert bits(one).tobytes() == bits(two).tobytes()
    else:
        error = np.abs(one.astype(np.float64) - two.astype(np.float64))
        assert error.max(initial=0.0) <= tolerance


def stored_places(column: Column, file: str) -> Iterator[tuple[str, int]]:
    """A byte in the middle of each piece that a column is stored in, with the name of its file, or ``file``."""
    source = getattr(column, "source", None)
    name = file if source is None else source.name
    for extent in column.extents():
        if extent.size:
            middle = extent.size // 2 if extent.stride is None else extent.rows // 2 * extent.stride
            yield name, extent.offset + middle
        yield from ((name, part.offset) for part in extent.others if extent.rows)


def bits(array: Array) -> Array:
    """The array's bytes in C order, little endian."""
    swapped = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.kind in "fiu" else array
    return np.ascontiguousarray(swapped).reshape(-1).view(np.uint8)


def plain_ids(ids: Any) -> list[Any]:
    """Ids as a list of ints or strings."""
    return list(ids) if isinstance(ids, Strings) else [int(value) for value in ids]
