"""kNN ground truth of the nearest-neighbour benchmarks: ids, and after them, where the size says so, distances.

::

    offset 0   u32 nq   number of queries
    offset 4   u32 k    neighbours of each
    offset 8   nq*k ids, int32 (big-ann) or uint32 (DiskANN), row-major
    then       nq*k float32 distances, or nothing

The size decides: ``8 + 8*nq*k`` has distances, ``8 + 4*nq*k`` has not. cuVS keeps two files instead, ids in an
``.ibin`` and distances in an ``.fbin``, with a 16-byte header (u64 nq, u64 k) where 32 bits do not suffice.
Files of ids alone are plain ``.ibin`` and are read as such unless ``--from truth`` or the suffix says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.codecs import Raw
from polyvec.codecs.stream import write_rows
from polyvec.core.blocks import Extent
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, InputError, Truncated
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Record, Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.formats.headers import (
    refuse_other_width,
    refuse_swapped,
    rows_there,
    swapped_column,
    swapped_note,
    values_swapped,
)

HEADER = Record("header", nq="u4", k="u4")
WIDE_HEADER = Record("header", nq="u8", k="u8")
MAX_U32 = 2**32 - 1
OWN_SUFFIXES = (".truth", ".gt")
SHARED_SUFFIXES = ("", ".bin", ".ibin", ".i32bin", ".u32bin", ".fbin")  # what such files are called in the wild
# What the field calls these columns, in files that hold several.
ID_NAMES = ("neighbors", "neighbors_id", "neighbours", "neigh", "gt", "knn", "ids")
DISTANCE_NAMES = ("distances", "dists")
QUERY_NAMES = ("test", "query", "queries", "q")
VARIANTS = {"truth": "<i4", "big-ann": "<i4", "diskann": "<u4"}


class Truth(Format):
    """kNN ground truth."""

    name = "truth"
    title = "kNN ground truth (big-ann, DiskANN)"
    suffixes = OWN_SUFFIXES
    aliases = {"big-ann": "big-ann", "diskann": "diskann", "gt": "truth"}  # noqa: RUF012
    holds = Holds(many_columns=True, own_columns=True, dtypes=tuple(map(np.dtype, ("<i4", "<u4", "<f4"))), casts=True)
    demo = False  # holds search results, no vectors

    def sniff(self, peek: Peek) -> Sequence[Match]:
        fit = _fit(peek.head, peek.size)
        if peek.suffix in OWN_SUFFIXES:
            if fit is None:
                return [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; the size does not fit its header", "truth")]
            return [Match(Confidence.NAMED, f"suffix {peek.suffix} and {_equation(fit)}", "truth")]
        if fit is None or not fit[3] or not fit[1] or not _ids_first(peek.head, fit):
            return []
        sure = Confidence.NAMED if peek.suffix in SHARED_SUFFIXES else Confidence.FITS
        return [Match(sure, f"{_equation(fit)}: ids, then distances", "truth")]

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        ids = np.dtype(VARIANTS.get(variant, "<i4"))
        swapped = _swapped(source)
        if swapped is not None:
            return _open_swapped(source, swapped, ids, lenient)
        header, nq, k, distances, notes = _read(source, lenient)
        size = nq * k * 4
        extents = [("ids", Extent(0, nq, header.size, size, Raw(ids)))]
        if distances:
            extents.append(("distances", Extent(0, nq, header.size + size, size, Raw(np.dtype("<f4")))))
        columns: dict[str, Column] = {
            name: FileColumn(name, source, [extent], row_shape=(k,), encoding="raw") for name, extent in extents
        }
        return Collection(columns, main="ids", notes=notes)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        ids, distances = truth_columns(collection)
        return f"raw {_id_type(ids, options).name}" + (" and float32" if distances is not None else "")

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        ids, distances = truth_columns(collection)
        values = {"nq": ids.rows, "k": ids.row_shape[0]}
        sink.write((HEADER if max(values.values()) <= MAX_U32 else WIDE_HEADER).pack(values))
        write_rows(sink, ids, Raw(_id_type(ids, options)), options)
        if distances is not None:
            write_rows(sink, distances, Raw(np.dtype("<f4")), options)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            yield from (Finding("warning", note) for note in collection.notes)
            yield from check_rows(collection)
            for block in collection["ids"].blocks(reuse=True):
                rows = block.decode()
                if rows.size and rows.dtype.kind == "i" and rows.min() < 0:
                    row = block.start + int(np.flatnonzero((rows < 0).any(axis=1))[0])
                    yield Finding(
                        "warning",
                        f"ids below 0, the first in row {row}: neighbours that were not found, "
                        "or ids of more than 31 bits (try --from diskann)",
                        field="ids",
                    )
                    return

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        header, nq, k, distances, _ = _read(source, lenient=True)
        size = nq * k * 4
        spans = [*header.spans(0, {"nq": nq, "k": k}), Span(header.size, size, "ids", f"{nq} x {k}")]
        if distances:
            spans.append(Span(header.size + size, size, "distances", f"{nq} x {k} float32"))
        end = spans[-1].offset + spans[-1].size
        return [*spans, Span(end, source.size - end, "extra", "not part of the format")] if source.size > end else spans


def truth_columns(collection: Collection) -> tuple[Column, Column | None]:
    """The columns of a collection that are ids and distances of neighbours; `InputError` where they are not."""
    names = {"ids": ID_NAMES, "distances": DISTANCE_NAMES}
    found = {kind: next((collection[n] for n in many if n in collection.columns), None) for kind, many in names.items()}
    ids, distances = found["ids"], found["distances"]
    if ids is None and len(collection.columns) == 1:
        ids = collection.vectors
    if ids is None or len(ids.shape) != 2 or ids.dtype.kind not in "iu":
        shown = ", ".join(f"{n} ({'x'.join(map(str, c.shape))} {c.dtype})" for n, c in collection.columns.items())
        raise InputError(
            f"ground truth needs a column of whole numbers called ids or neighbors; found {shown}; "
            "choose one with --column (column=)"
        )
    others = [n for n, c in collection.columns.items() if c is not ids and c is not distances]
    if others:
        raise InputError(
            f"ground truth holds ids and distances, not {', '.join(others)}; choose with --column (column=)"
        )
    if distances is not None and distances.shape != ids.shape:
        raise InputError(f"distances of shape {distances.shape} do not belong to ids of shape {ids.shape}")
    return ids, distances


def _id_type(ids: Column, options: WriteOptions) -> np.dtype[Any]:
    if options.variant in ("big-ann", "diskann"):
        return np.dtype(VARIANTS[options.variant])
    return np.dtype("<u4") if ids.dtype == np.uint32 else np.dtype("<i4")


Fit = tuple[Record, int, int, bool]


def _read(source: Source, lenient: bool) -> tuple[Record, int, int, bool, list[str]]:
    """Header, nq, k, whether there are distances, and notes; checked against the bytes that exist."""
    fit = _fit(source.read_at(0, WIDE_HEADER.size), source.size)
    if fit is not None:
        header, nq, k, distances = fit
        if nq and not k:
            raise Corrupt(
                "queries without neighbours", offset=header.offset("k"), field="k", expected="at least 1", found=0
            )
        return header, nq, k, distances, []
    values = HEADER.read(source)
    nq, k = values["nq"], values["k"]
    there, ids = source.size - HEADER.size, nq * k * 4
    if lenient or there > 2 * ids:
        refuse_other_width(nq, k, there, 4, offset=HEADER.offset("k"), field="k", but=(2 * k,))
    if there > 2 * ids and k:
        note = f"{there - 2 * ids} extra bytes after the distances, from byte {HEADER.size + 2 * ids} on, are ignored"
        return HEADER, nq, k, True, [note]
    if lenient and k and there >= 0:
        if there >= ids:
            note = f"the file is cut short: the distances are incomplete and left out; {nq} rows of ids are read"
            return HEADER, nq, k, False, [note]
        whole = rows_there(nq, 4 * k, there)
        return HEADER, whole, k, False, [f"the file is cut short: {whole} of {nq} rows of ids exist and are read"]
    raise Truncated(
        f"the header promises {nq} queries with {k} neighbours, but the size fits neither ids nor ids and distances",
        offset=source.size,
        field="nq, k",
        expected=f"{HEADER.size + ids} or {HEADER.size + 2 * ids} bytes",
        found=f"{source.size} bytes",
        remedy="fetch the file again, or read the whole rows of ids with --lenient (lenient=True)",
    )


def _swapped(source: Source) -> Fit | None:
    """The big-endian header that fits the size, where no little-endian one does."""
    head = source.read_at(0, WIDE_HEADER.size)
    if _fit(head, source.size) is not None or len(head) < HEADER.size:
        return None
    for header, counts in ((HEADER, head[:4][::-1] + head[4:8][::-1]), (WIDE_HEADER, head[:8][::-1] + head[8:][::-1])):
        fit = _fit(counts, source.size)
        if fit is not None and fit[0] is header and fit[1] and fit[2]:
            return fit
    return None


def _open_swapped(source: Source, fit: Fit, ids: np.dtype[Any], lenient: bool) -> Collection:
    header, nq, k, distances = fit
    if not lenient:
        raise refuse_swapped(f"{nq} queries with {k} neighbours", field="nq, k")
    turned = values_swapped(source, header.size, ids)
    columns = {"ids": swapped_column("ids", source, header.size, (nq, k), ids, turned=turned)}
    if distances:
        at = header.size + nq * k * 4
        columns["distances"] = swapped_column("distances", source, at, (nq, k), np.dtype("<f4"), turned=turned)
    return Collection(columns, main="ids", notes=[swapped_note(turned)])


def _fit(head: bytes, size: int) -> Fit | None:
    for header in (HEADER, WIDE_HEADER):
        if len(head) >= header.size:
            half = header.size // 2
            nq, k = int.from_bytes(head[:half], "little"), int.from_bytes(head[half : header.size], "little")
            for distances in (True, False):
                if header.size + nq * k * (8 if distances else 4) == size:
                    return header, nq, k, distances and nq * k > 0
    return None


def _ids_first(head: bytes, fit: Fit) -> bool:
    """Whether the first query's values look like ids: small, not negative, each once. float64 rows do not."""
    header, nq, k, _ = fit
    there = (len(head) - header.size) // 4
    ids = np.frombuffer(head, "<i4", min(nq * k, there), header.size)
    first = ids[:k]
    return bool((ids >= 0).all()) and len(np.unique(first)) == len(first)


def _equation(fit: Fit) -> str:
    header, nq, k, distances = fit
    return f"size = {header.size} + {nq} x {k} x {8 if distances else 4}"


FORMAT = Truth()
