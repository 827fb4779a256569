"""Range-search ground truth: for every query as many ids as lie within its radius.

::

    offset 0   i32 nq       number of queries
    offset 4   i32 total    results of all queries together
    offset 8   i32[nq]      counts, one a query; their sum is total
    then       i32[total]   ids, query after query
    then       f32[total]   distances, or nothing: the size decides
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyvec.codecs import Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.headers import refuse_swapped, swapped_column, swapped_note, values_swapped

HEADER = Record("header", nq="i4", total="i4")
MAX_I32 = 2**31 - 1
SUFFIXES = (".range", ".rangetruth")
TYPES = {"counts": "<i4", "ids": "<i4", "distances": "<f4"}


class Ranges(Format):
    """Range ground truth."""

    name = "ranges"
    title = "range ground truth (big-ann)"
    suffixes = SUFFIXES
    aliases = {"range": ""}  # noqa: RUF012
    holds = Holds(many_columns=True, own_columns=True, dtypes=tuple(map(np.dtype, ("<i4", "<f4"))), casts=True)
    demo = False  # holds search results, no vectors

    def sniff(self, peek: Peek) -> Sequence[Match]:
        nq, total, distances = _fit(peek.head, peek.size)
        if peek.suffix in SUFFIXES:
            if distances is None:
                return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the size does not fit its header")]
            return [Match(Confidence.NAMED, f"suffix {peek.suffix} and {_equation(nq, total, distances)}")]
        if distances is None or not nq or not total:
            return []
        counts = np.frombuffer(peek.head, "<i4", min(nq, (len(peek.head) - HEADER.size) // 4), HEADER.size)
        whole = len(counts) == nq
        summed = int(counts.sum(dtype=np.int64))
        if counts.min() < 0 or (summed != total if whole else summed > total):
            return []
        # In a small plain .ibin the same numbers can be read both ways, and then the name is right.
        plain = nq * total * 4 + HEADER.size == peek.size
        sure = Confidence.NAMED if peek.suffix in (".ibin", ".bin", "") and not plain else Confidence.FITS
        return [Match(sure, f"{_equation(nq, total, distances)}, counts that sum to {total}")]

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        values = HEADER.read(source)
        head = source.read_at(0, HEADER.size)
        nq, total, distances = _fit(head[:4][::-1] + head[4:][::-1], source.size)
        if nq and distances is not None and _fit(head, source.size)[2] is None:
            return _open_swapped(source, nq, total, distances, lenient)
        nq, total = values["nq"], values["total"]
        for name in ("nq", "total"):
            if values[name] < 0:
                raise Corrupt(
                    "a negative count", offset=HEADER.offset(name), field=name, expected="0 or more", found=values[name]
                )
        _, _, distances = _fit(source.read_at(0, HEADER.size), source.size)
        notes = []
        bare = HEADER.size + 4 * (nq + total)
        if distances is None:
            if source.size < bare or (source.size < bare + 4 * total and not lenient):
                raise Truncated(
                    f"the header promises {nq} queries and {total} results, but the size fits neither ids nor "
                    "ids and distances",
                    offset=source.size,
                    field="nq, total",
                    expected=f"{bare} or {bare + 4 * total} bytes",
                    found=f"{source.size} bytes",
                    remedy="fetch the file again",
                )
            distances = source.size >= bare + 4 * total
            notes.append(
                "bytes after the results are ignored" if distances else "the distances are cut short and left out"
            )
        columns: dict[str, Column] = {}
        at = HEADER.size
        for name, rows in (("counts", nq), ("ids", total), ("distances", total if distances else 0)):
            if name == "distances" and not distances:
                continue
            extent = Extent(0, rows, at, rows * 4, Raw(np.dtype(TYPES[name])))
            columns[name] = FileColumn(name, source, [extent], row_shape=(), encoding="raw")
            at += rows * 4
        _check_counts(columns["counts"], total)
        return Collection(columns, main="ids", notes=notes)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "raw int32" + (" and float32" if "distances" in collection.columns else "")

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        names = set(collection.columns)
        if not {"counts", "ids"} <= names <= set(TYPES) or any(c.row_shape for c in collection.columns.values()):
            raise InputError(
                "range ground truth needs the columns counts, ids and perhaps distances, one value a row; "
                f"found {', '.join(collection.columns)}"
            )
        counts, ids = collection["counts"], collection["ids"]
        distances = collection.columns.get("distances")
        if max(counts.rows, ids.rows) > MAX_I32 or (distances is not None and distances.rows != ids.rows):
            raise InputError(f"range ground truth holds at most {MAX_I32} results, and one distance a result")
        _check_counts(counts, ids.rows)
        sink.write(HEADER.pack({"nq": counts.rows, "total": ids.rows}))
        for name in TYPES:
            if name in names:
                write_rows(sink, collection[name], Raw(np.dtype(TYPES[name])), options)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        with self.open(source, lenient=True) as collection:
            sizes = {name: column.rows for name, column in collection.columns.items()}
        at = HEADER.size
        spans = HEADER.spans(0, HEADER.read(source))
        for name, rows in sizes.items():
            spans.append(Span(at, rows * 4, name, f"{rows} {np.dtype(TYPES[name]).name}"))
            at += rows * 4
        return [*spans, Span(at, source.size - at, "extra", "not part of the format")] if source.size > at else spans


def _open_swapped(source: Source, nq: int, total: int, distances: bool, lenient: bool) -> Collection:
    """A file whose counts fit only in big-endian order."""
    if not lenient:
        raise refuse_swapped(f"{nq} queries and {total} results", field="nq, total")
    turned = values_swapped(source, HEADER.size, np.dtype("<i4"))
    columns: dict[str, Column] = {}
    at = HEADER.size
    for name, rows in (("counts", nq), ("ids", total), ("distances", total)):
        if name != "distances" or distances:
            columns[name] = swapped_column(name, source, at, (rows,), np.dtype(TYPES[name]), turned=turned)
            at += rows * 4
    _check_counts(columns["counts"], total)
    return Collection(columns, main="ids", notes=[swapped_note(turned)])


def _check_counts(counts: Column, total: int) -> None:
    """`Corrupt` unless the counts are counts and sum to the total."""
    summed = 0
    for block in counts.blocks(reuse=True):
        rows = block.decode()
        if rows.size and rows.min() < 0:
            row = block.start + int(np.flatnonzero(rows < 0)[0])
            raise Corrupt(
                "a negative count",
                offset=HEADER.size + 4 * row,
                field=f"counts[{row}]",
                expected="0 or more",
                found=int(rows[row - block.start]),
            )
        summed += int(rows.sum(dtype=np.int64))
    if summed != total:
        raise Corrupt(
            "the counts do not sum to the total",
            offset=HEADER.offset("total"),
            field="total",
            expected=summed,
            found=total,
        )


def _fit(head: bytes, size: int) -> tuple[int, int, bool | None]:
    """nq, total, and whether there are distances; None where the size is neither."""
    if len(head) < HEADER.size:
        return 0, 0, None
    nq, total = (int.from_bytes(head[at : at + 4], "little", signed=True) for at in (0, 4))
    if nq < 0 or total < 0:
        return nq, total, None
    bare = HEADER.size + 4 * (nq + total)
    return nq, total, False if size == bare else True if size == bare + 4 * total else None


def _equation(nq: int, total: int, distances: bool) -> str:
    return f"size = 8 + {nq} x 4 + {total} x {8 if distances else 4}"


FORMAT = Ranges()
