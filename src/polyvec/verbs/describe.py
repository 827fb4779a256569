"""describe: what a file is, how we know, and how its values look, from a bounded sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Unpack

import numpy as np

from polyvec import formats
from polyvec.core.arguments import check_flags, check_paths, check_texts, joined
from polyvec.core.collection import Collection
from polyvec.core.columns import Column
from polyvec.core.layout import Span
from polyvec.core.places import Place
from polyvec.core.remarks import unremarked
from polyvec.core.signatures import shows_options
from polyvec.core.sources import IN_MEMORY, Source, Where, open_source
from polyvec.core.vocab import Strings
from polyvec.formats.options import ReadingOptions
from polyvec.kernels.lengths import row_lengths

SAMPLE_ROWS = 1000
SAMPLE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column in words and numbers; the statistics come from ``sampled`` rows spread over it."""

    name: str
    rows: int
    shape: tuple[int, ...]
    dtype: str
    encoding: str
    decoded_bytes: int
    sampled: int = 0
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    norm_min: float | None = None
    norm_mean: float | None = None
    norm_max: float | None = None
    not_finite: int = 0
    zero_rows: int = 0


@dataclass(frozen=True, slots=True)
class Description:
    """What ``polyvec info`` prints."""

    path: str
    format: str
    reason: str
    bytes: int
    rows: int
    dim: int
    columns: tuple[ColumnDescription, ...]
    vocab: int | None = None
    records: list[str] | None = None
    ids: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    sidecars: tuple[str, ...] = ()
    also_fits: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    layout: tuple[Span, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@shows_options(ReadingOptions)
def describe(
    path: Where | Source,
    *,
    format: str | None = None,
    layout: bool = False,
    lenient: bool = False,
    sample: bool = True,
    options: Mapping[str, Any] | None = None,
    **own: Unpack[ReadingOptions],
) -> Description:
    """Describe a file. ``layout`` adds its byte map; ``sample=False`` reads no rows at all. Takes the options of `open`."""
    check_texts(format=format)
    check_flags(layout=layout, lenient=lenient, sample=sample)
    given = joined(own, options)
    if isinstance(path, Source):
        return _describe(path, format, layout, lenient, sample, given)
    if not isinstance(path, (*IN_MEMORY, Place)):
        check_paths(path=path)
    return formats.settled(lambda: _describe(open_source(path), format, layout, lenient, sample, given))


def _describe(
    source: Source, format: str | None, layout: bool, lenient: bool, sample: bool, own: dict[str, Any]
) -> Description:
    with source:
        detection = formats.detect(source, format)
        with unremarked(), formats.open(source, format=format, lenient=lenient, **own) as collection:
            columns = tuple(describe_column(c, sample=sample) for c in collection.columns.values())
            notes = [*collection.notes, *_remarks(collection, columns)]
            spans = (
                tuple(detection.format.told(own).layout(source, variant=detection.match.variant)) if layout else None
            )
            return Description(
                source.label,
                collection.format,
                detection.match.reason,
                source.size,
                collection.rows,
                collection.dim,
                columns,
                len(collection.vocab) if collection.vocab is not None else None,
                collection.records.fields if collection.records is not None else None,
                _ids(collection),
                collection.metadata,
                tuple(collection.sidecars),
                tuple(f"{m.variant or f.name}: {m.reason}" for f, m in detection.others if m.fits),
                tuple(notes),
                spans,
            )


def _ids(collection: Collection) -> str | None:
    if collection.ids is None:
        return None
    return "strings" if isinstance(collection.ids, Strings) else "int64"


def describe_column(column: Column, *, sample: bool = True) -> ColumnDescription:
    """A column's shape and, from a bounded sample, its values."""
    plain = ColumnDescription(column.name, column.rows, column.shape, column.dtype.name, column.encoding, column.nbytes)
    if not sample or not column.rows or not column.nbytes:
        return plain
    count = max(1, min(SAMPLE_ROWS, column.rows, SAMPLE_BYTES // max(1, column.nbytes // column.rows)))
    rows = column.spread(count)
    values = column.take(rows).reshape(len(rows), -1).astype(np.float64)
    finite = np.isfinite(values)
    whole = values[finite.all(axis=1)]
    norms = row_lengths(whole) if len(whole) else np.zeros(1)
    some = values[finite] if finite.any() else np.zeros(1)
    return ColumnDescription(
        column.name,
        column.rows,
        column.shape,
        column.dtype.name,
        column.encoding,
        column.nbytes,
        len(rows),
        float(some.min()),
        float(some.max()),
        float(some.mean()),
        float(norms.min()),
        float(norms.mean()),
        float(norms.max()),
        int((~finite.all(axis=1)).sum()),
        int((values == 0).all(axis=1).sum()),
    )


def _remarks(collection: Collection, columns: tuple[ColumnDescription, ...]) -> list[str]:
    remarks = []
    for column in columns:
        if column.not_finite:
            remarks.append(
                f"{column.not_finite} of {column.sampled} sampled rows of {column.name!r} hold NaN or infinity"
            )
        if column.zero_rows:
            remarks.append(f"{column.zero_rows} of {column.sampled} sampled rows of {column.name!r} are all zero")
        tiny = column.dtype == "float32" and column.maximum is not None and 0 < column.maximum < 1e-35
        if tiny and collection.format == "bins":
            remarks.append(
                "the values are tiny floats: these may be integers (ids) under a float suffix; try --from ibin"
            )
    return remarks
