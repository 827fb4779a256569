"""floret's text table (.floret): one line a bucket; words have no rows of their own.

::

    buckets ' ' dim ' ' minn ' ' maxn ' ' n_hashes ' ' seed ' ' bow ' ' eow '\\n'
    buckets times: index ' ' v1 ... vdim ' '? '\\n'          index counts from 0

``vectors`` has no rows and ``subwords`` the table; a word's vector is the sum of the rows it and its n-grams hash to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import ArrayColumn, ReaderColumn
from polyvec.core.errors import Corrupt, InputError, LossyConversion, Truncated
from polyvec.core.format import Confidence, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.subwords import MAX_N, FloretIndexer
from polyvec.core.vocab import Vocab
from polyvec.formats.words import F32, float_rows
from polyvec.kernels import strings as tables

HEADER = re.compile(rb"(\d{1,18}) (\d{1,9}) (\d{1,9}) (\d{1,9}) (\d) (\d{1,10}) (\S{1,64}) (\S{1,64})[ \r]*\n")


class Floret(Format):
    """floret tables."""

    name = "floret"
    title = "floret text table"
    suffixes = (".floret",)
    holds = Holds(many_columns=True, vocab=True, dtypes=(F32,), casts=True)
    demo = False  # holds subwords only

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if HEADER.match(peek.head):
            return [
                Match(
                    Confidence.NAMED if peek.suffix == ".floret" else Confidence.FITS,
                    "a first line as floret writes it",
                )
            ]
        return (
            [Match(Confidence.SUFFIX, "suffix .floret; the first line is another")] if peek.suffix == ".floret" else []
        )

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        buckets, dim, indexer, start = read_header(source)
        if buckets > (source.size - start) // (2 * dim + 1):
            raise Truncated(
                f"the file is too short for {buckets} rows of {dim} values",
                offset=start,
                field="buckets",
                expected=f"at least {buckets * (2 * dim + 1)} bytes",
                found=f"{source.size - start} bytes",
            )
        data = source.mapped(0, source.size)
        lines = tables.scan_text(data, start=start, stop=source.size, count=buckets, dim=dim)
        found = len(lines.strings)
        if lines.fields >= 0:
            raise Corrupt(
                f"row {found} has too few fields",
                offset=lines.end,
                field=f"row {found}",
                expected=f"an index and {dim} numbers",
                found=f"{lines.fields} fields",
            )
        if found < buckets:
            raise Truncated(f"row {found} of {buckets} is missing", offset=lines.end, field=f"row {found}")
        _check_indices(lines.strings)

        def read(first: int, last: int) -> Array:
            out = np.empty((last - first, dim), F32)
            bad = tables.parse_rows(data, stop=source.size, numbers=lines.numbers[first:last], out=out)
            if bad >= 0:
                row = first + bad // dim
                raise Corrupt(
                    f"value {bad % dim} of row {row} is not a number",
                    path=source.label,
                    offset=int(lines.numbers[row]),
                    field=f"row {row}",
                )
            return out

        columns = {
            "vectors": ArrayColumn("vectors", np.empty((0, dim), F32)),
            "subwords": ReaderColumn("subwords", (buckets, dim), F32, read),
        }
        return Collection(columns, vocab=Vocab([], subwords=indexer))

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        indexer = collection.vocab.subwords if collection.vocab is not None else None
        if not isinstance(indexer, FloretIndexer) or "subwords" not in collection.columns:
            raise LossyConversion(
                "a floret table holds floret subwords only, and the source has none; write .fifu or .txt"
            )
        if collection.rows:
            raise LossyConversion(f"a floret table holds no words, and the source has {collection.rows}")
        return collection, []

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "raw float32 as text"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        indexer = collection.vocab.subwords if collection.vocab is not None else None
        if not isinstance(indexer, FloretIndexer):
            raise InputError("a floret table holds floret subwords only")
        column = collection["subwords"]
        if any(c.isspace() for c in indexer.bow + indexer.eow) or not (indexer.bow and indexer.eow):
            raise LossyConversion("brackets with blanks, or none, cannot stand in a floret table's first line")
        fields = (column.rows, column.row_shape[0], indexer.min_n, indexer.max_n, indexer.hashes, indexer.seed)
        sink.write(f"{' '.join(map(str, fields))} {indexer.bow} {indexer.eow}\n".encode())
        for start in range(0, column.rows, 8192):
            stop = min(start + 8192, column.rows)
            names = tables.pack([str(row) for row in range(start, stop)])
            sink.write(tables.format_rows(names, float_rows(column, start, stop)))
            if options.progress:
                options.progress(stop, column.rows)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        _, _, indexer, start = read_header(source)
        return [Span(0, start, "header", str(indexer)), Span(start, source.size - start, "rows", "index and numbers")]


def read_header(source: Source) -> tuple[int, int, FloretIndexer, int]:
    """Buckets, dimension, the indexer and where the first line ends."""
    head = source.read_at(0, 512)
    found = HEADER.match(head)
    if found is None:
        raise Corrupt(
            "the first line is not floret's",
            offset=0,
            field="header",
            expected="buckets dim minn maxn n_hashes seed bow eow",
            found=repr(head[:60]),
        )
    buckets, dim, min_n, max_n, hashes, seed = (int(found[i]) for i in range(1, 7))
    valid = dim >= 1 and buckets >= 1 and 1 <= min_n <= max_n <= MAX_N and 1 <= hashes <= 4 and seed < 2**32
    try:
        bow, eow = found[7].decode(), found[8].decode()
    except UnicodeDecodeError:
        valid = False
    if not valid:
        raise Corrupt(
            "the first line holds values that floret does not have",
            offset=0,
            field="header",
            expected=f"1 <= minn <= maxn <= {MAX_N}, 1 to 4 hashes, UTF-8",
            found=repr(head[: found.end()]),
        )
    return buckets, dim, FloretIndexer(min_n, max_n, buckets, hashes, seed, bow, eow), found.end()


def _check_indices(names: tables.Table) -> None:
    for start in range(0, len(names), 1 << 16):
        piece = names.slice(start, start + (1 << 16))
        wanted = tables.pack([str(row) for row in range(start, start + len(piece))])
        same = np.array_equal(piece.stops - piece.starts, wanted.stops - wanted.starts)
        if not same or not np.array_equal(tables.join(piece), wanted.data):
            row = next(i for i in range(len(piece)) if piece[i] != wanted[i])
            raise Corrupt(
                "rows are not numbered from 0 on",
                offset=int(piece.starts[row]),
                field=f"row {start + row}",
                expected=start + row,
                found=repr(piece[row][:20]),
            )


FORMAT = Floret()
