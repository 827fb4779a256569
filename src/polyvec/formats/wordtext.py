"""Text embeddings: a word and its numbers on each line (GloVe), with a first line of counts as word2vec writes one.

::

    [rows ' ' cols '\\n']                     the variant "dims"
    word ' ' v1 ' ' v2 ... ' ' vcols '\\n'    UTF-8; the word is all that stands before the last cols fields

So a word may hold spaces. Numbers are rounded once to float32, and written as the shortest text that reads back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import ReaderColumn
from polyvec.core.errors import Corrupt, Truncated
from polyvec.core.files import Source
from polyvec.core.format import Confidence, Format, Holds, Match, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.sinks import Sink
from polyvec.core.vocab import Vocab
from polyvec.formats.word2vec import check_words, read_counts
from polyvec.formats.words import F32, blocks_of, prepare_plain, spelled, words_of
from polyvec.kernels import strings as tables

SAMPLE_BYTES = 1 << 20
BLANK_ENDS = b" \t\r\v\f"


class WordText(Format):
    """Text embeddings, without counts ("plain", GloVe) and with ("dims")."""

    name = "wordtext"
    title = "text word embeddings (GloVe, word2vec text)"
    suffixes = (".txt", ".glove", ".vec", ".text")
    aliases = {"txt": "plain", "glove": "plain", "text": "plain", "vec": "dims", "textdims": "dims"}  # noqa: RUF012
    holds = Holds(vocab=True, dtypes="float32")
    options = ("unnormalize", "subwords", "spaces")
    reading = ("lossy",)

    def sniff(self, head: bytes, size: int, suffix: str) -> Sequence[Match]:
        variant = _variant(head, whole=size <= len(head))
        if variant is None:
            return []
        what = "lines of a word and numbers" + (", after their counts" if variant == "dims" else "")
        return [Match(Confidence.NAMED if suffix in self.suffixes else Confidence.FITS, what, variant)]

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        head = source.read_at(0, SAMPLE_BYTES)
        kind = variant if variant in ("plain", "dims") else (_variant(head, whole=source.size <= len(head)) or "plain")
        rows, start = None, 0
        if kind == "dims":
            counts = read_counts(head[:64])
            if counts is None:
                raise Corrupt("the first line does not hold two counts", offset=0, field="rows, cols",
                              expected="'rows cols' and a line break", found=repr(head[:24]))  # fmt: skip
            rows, dim, start = counts
        else:
            dim = _dimension(head, whole=source.size <= len(head))
        if dim < 1:
            raise Corrupt("the first line holds no numbers", offset=0, field="line 1", expected="a word and numbers",
                          found=repr(head[:40]))  # fmt: skip
        data = source.view(0, source.size)
        limit = 2**62 if rows is None else rows
        lines = tables.scan_text(data, start=start, stop=source.size, count=limit, dim=dim)
        number, notes = len(lines.strings) + 1, []
        if lines.fields >= 0:
            raise Corrupt(f"line {number + (kind == 'dims')} has too few fields", offset=lines.end,
                          field=f"line {number}", expected=f"a word and {dim} numbers",
                          found=f"{lines.fields} fields")  # fmt: skip
        if rows is not None and len(lines.strings) < rows:
            if not lenient:
                raise Truncated(f"the first line promises {rows} rows", offset=lines.end, field="rows", expected=rows,
                                found=len(lines.strings), remedy="take those that exist with --lenient")  # fmt: skip
            notes.append(f"the file is cut short: {len(lines.strings)} of {rows} rows exist and are read")
        if rows is not None and data[lines.end :].size and data[lines.end :].tobytes().strip():
            notes.append(f"lines after the {rows} that the first one promises, from byte {lines.end} on, are ignored")
        numbers = lines.numbers

        def read(first: int, last: int) -> Array:
            out = np.empty((last - first, dim), F32)
            bad = tables.parse_rows(data, stop=source.size, numbers=numbers[first:last], out=out)
            if bad >= 0:
                row = first + bad // dim
                raise Corrupt(f"value {bad % dim} of row {row} is not a number", path=source.label,
                              offset=int(numbers[row]), field=f"row {row}")  # fmt: skip
            return out

        strings = check_words(lines.strings, source, lossy=bool(own.get("lossy", lenient)))
        return Collection({"vectors": ReaderColumn("vectors", (len(strings), dim), F32, read)},
                          vocab=Vocab(strings), notes=notes)  # fmt: skip

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        return prepare_plain(collection, own, "a text embedding")

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "raw float32 as text"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        strings = spelled(words_of(collection), forbidden=b"\n", ends=BLANK_ENDS, name="a text embedding",
                          replace=options.own.get("spaces"))  # fmt: skip
        table = strings.table
        if options.variant == "dims":
            sink.write(f"{collection.rows} {collection.dim}\n".encode())
        for start, stop, rows in blocks_of(collection):
            sink.write(tables.format_rows(table.slice(start, stop), rows))
            if options.progress:
                options.progress(stop, collection.rows)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        counts = read_counts(source.read_at(0, 64)) if variant == "dims" else None
        start = counts[2] if counts else 0
        spans = [Span(0, start, "counts", f"{counts[0]} {counts[1]}")] if counts else []
        return [*spans, Span(start, source.size - start, "lines", "word and numbers")]


def _lines(head: bytes, *, whole: bool) -> list[list[bytes]]:
    """The fields of the head's lines; a line that the head cuts loses its last field."""
    lines = head.split(b"\n")
    cut = lines.pop()
    fields = [found for line in lines[:200] if (found := line.split())]
    if cut and (whole or not fields):
        last = cut.split()
        fields.append(last if whole else last[:-1])
    return fields


def _numbers(fields: list[bytes]) -> int:
    """How many of the last fields are numbers; the first belongs to the word."""
    count = 0
    while count < len(fields) - 1 and _is_number(fields[-1 - count]):
        count += 1
    return count


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return b"_" not in text


def _dimension(head: bytes, *, whole: bool) -> int:
    """The dimension of lines without counts: what those with the fewest trailing numbers have (a bad line has none)."""
    return min((found for fields in _lines(head, whole=whole) if (found := _numbers(fields))), default=0)


def _variant(head: bytes, *, whole: bool) -> str | None:
    if b"\0" in head:
        return None
    lines = _lines(head, whole=whole)
    counts = read_counts(head[:64])
    if counts is not None and len(lines[0]) == 2:
        second = lines[1] if len(lines) > 1 else None
        if second is None:
            return "dims" if counts[0] == 0 and whole else None
        cut = not whole and len(lines) == 2
        if _numbers(second) >= counts[1] >= 1 or (cut and len(second) > 1 and _numbers(second) == len(second) - 1):
            return "dims"
    if lines and min(map(_numbers, lines)) >= 2:
        return "plain"
    return None


FORMAT = WordText()
