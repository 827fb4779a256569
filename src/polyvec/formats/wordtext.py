"""Text embeddings: a word and its numbers on each line (GloVe), with a first line of counts as word2vec writes one.

::

    [rows ' ' cols '\\n']                     the variant "dims"
    word ' ' v1 ' ' v2 ... ' ' vcols '\\n'    UTF-8; the word is all that stands before the last cols fields

So a word may hold spaces. Numbers are rounded once to float32, and written as the shortest text that reads back.
Without counts cols is what most lines of a sample have, and a line that has fewer or more is an error that names it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import Array
from polyvec.core.collection import Collection
from polyvec.core.columns import ReaderColumn
from polyvec.core.errors import Corrupt, LossyConversion, Truncated
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.options import Option
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.spelling import check_words_too, rows_with, shown
from polyvec.formats.word2vec import check_words, read_counts
from polyvec.formats.wordoptions import LOSSY, PLAIN_OPTIONS
from polyvec.formats.words import F32, blocks_of, prepare_plain, words_of
from polyvec.kernels import strings as tables
from polyvec.kernels.strings import Bytes

HEAD_BYTES = 4096  # what a format is recognised by
SAMPLE_BYTES = 1 << 20  # looked at for the dimension, and as much again spread over the rest
WINDOWS, WINDOW_BYTES = 16, 1 << 16
HEAD_LINES, WINDOW_LINES = 200, 50
BLANKS = tables.BLANKS
PLAIN, DIMS = "plain", "dims"
DIM = Option("dim", int, "Numbers at the end of each line, where words may end in numbers too.")


class WordText(Format):
    """Text embeddings, without counts ("plain", GloVe) and with ("dims")."""

    name = "wordtext"
    title = "text word embeddings (GloVe, word2vec text)"
    suffixes = (".txt", ".glove", ".vec", ".text")
    aliases = {"txt": "plain", "glove": "plain", "text": "plain", "vec": "dims", "textdims": "dims"}  # noqa: RUF012
    holds = Holds(vocab=True, dtypes=(F32,), casts=True)
    options = PLAIN_OPTIONS
    reading = (LOSSY, DIM)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        named = peek.suffix in self.suffixes
        variant = _variant(peek.head, whole=peek.size <= len(peek.head), strict=not named)
        if variant is None:
            return []
        what = "lines of a word and numbers" + (", after their counts" if variant == DIMS else "")
        return [Match(Confidence.NAMED if named else Confidence.FITS, what, variant)]

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        head = source.read_at(0, SAMPLE_BYTES)
        whole = source.size <= len(head)
        kind = variant if variant in (PLAIN, DIMS) else (_variant(head, whole=whole) or PLAIN)
        usual = _usual([_numbers(fields) for fields in _sample(source, head)])
        asked = own.get("dim")
        plan = _stated(head, asked) if kind == DIMS else _Plan(None, usual if asked is None else int(asked), 0)
        if plan.dim < 1:
            raise Corrupt(
                "the first line holds no numbers",
                offset=0,
                field="line 1",
                expected="a word and numbers",
                found=repr(head[:40]),
            )
        data = source.mapped(0, source.size)
        limit = 2**62 if plan.rows is None else plan.rows
        lines = tables.scan_text(data, start=plan.start, stop=source.size, count=limit, dim=plan.dim)
        notes = [*_wider(plan, usual), *_cut_short(data, lines, plan, lenient=lenient), *_left_over(data, lines, plan)]
        if kind == PLAIN and asked is None:  # the dimension is a guess
            notes += _long_lines(data, lines.strings, plan.dim, lenient=lenient)
        strings = check_words(lines.strings, source, lossy=bool(own.get("lossy", lenient)))
        read = partial(_read_rows, source, data, lines.numbers, plan.dim)
        return Collection(
            {"vectors": ReaderColumn("vectors", (len(strings), plan.dim), F32, read)}, vocab=Vocab(strings), notes=notes
        )

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        return prepare_plain(collection, own, "a text embedding", forbidden=b"\0\n\r", ends=BLANKS)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "raw float32 as text"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        strings = words_of(collection)
        counts = f"{collection.rows} {collection.dim}\n".encode() if options.variant == DIMS else b""
        _refuse(collection, strings, counted=bool(counts))
        table = strings.table
        sink.write(counts)
        for start, stop, rows in blocks_of(collection):
            text = tables.format_rows(table.slice(start, stop), rows)
            if not start:
                head, size = counts + text[:HEAD_BYTES], len(counts) + len(text)
                whole = stop == collection.rows and size <= HEAD_BYTES
                if _variant(head[:HEAD_BYTES], whole=whole, strict=False) != (DIMS if counts else PLAIN):
                    raise LossyConversion(
                        f"the word {shown(strings[0])} of row 0 is {len(strings.raw(0)):,} bytes long, and text "
                        f"embeddings are recognised by their first {HEAD_BYTES:,}; shorten it, put another row first, "
                        "or write .fifu"
                    )
            sink.write(text)
            if options.progress:
                options.progress(stop, collection.rows)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            yield from check_words_too(collection)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        counts = read_counts(source.read_at(0, 64)) if variant == "dims" else None
        start = counts[2] if counts else 0
        spans = [Span(0, start, "counts", f"{counts[0]} {counts[1]}")] if counts else []
        return [*spans, Span(start, source.size - start, "lines", "word and numbers")]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What there is to read: rows (None: as many as there are lines) of ``dim`` numbers, from ``start`` on."""

    rows: int | None
    dim: int
    start: int


def _stated(head: bytes, asked: Any) -> _Plan:
    """What the counts in the first line say."""
    counts = read_counts(head[:64])
    if counts is None:
        raise Corrupt(
            "the first line does not hold two counts",
            offset=0,
            field="rows, cols",
            expected="'rows cols' and a line break",
            found=repr(head[:24]),
        )
    plan = _Plan(*counts)
    if asked not in (None, plan.dim):
        raise Corrupt(
            f"the first line says {plan.dim} values a row, and {asked} were asked for",
            offset=0,
            field="cols",
            remedy="leave out --dim",
        )
    return plan


def _read_rows(source: Source, data: Bytes, numbers: NDArray[np.int64], dim: int, first: int, last: int) -> Array:
    """The numbers of some rows; ``numbers`` is where those of each row begin."""
    out = np.empty((last - first, dim), F32)
    bad = tables.parse_rows(data, stop=source.size, numbers=numbers[first:last], out=out)
    if bad >= 0:
        row = first + bad // dim
        raise Corrupt(
            f"value {bad % dim} of row {row} is not a number",
            path=source.label,
            offset=int(numbers[row]),
            field=f"line {_line_number(data, int(numbers[row]))}",
            expected=f"a word and {dim} numbers",
            remedy="mend or remove that line",
        )
    return out


def _refuse(collection: Collection, strings: Strings, *, counted: bool) -> None:
    """`LossyConversion` for what reads back as something else: where nothing states the dimension, words that end in
    a number, rows of one value, no rows."""
    if collection.dim < 1:
        raise LossyConversion("rows of no values cannot stand in a text embedding; write .npy")
    if counted:
        return
    if not collection.rows or collection.dim == 1:
        what = "no rows" if not collection.rows else "one dimension"
        raise LossyConversion(
            f"text of {what} does not tell its dimension; write .vec (--to textdims), whose first line does"
        )
    table = strings.table
    for row in rows_with(table, BLANKS).tolist():
        if _numbers(table[row].split()):
            raise LossyConversion(
                f"the word {shown(strings[row])} of row {row} ends in a number, which plain text cannot tell from its "
                "values; write .vec (--to textdims), whose first line states the dimension, or replace the space with "
                "--option spaces=_ (spaces='_')"
            )


# -- how many numbers a line has


def _sample(source: Source, head: bytes) -> list[list[bytes]]:
    """The fields of lines at the beginning and spread over the file: an odd head does not speak for the rest."""
    whole = source.size <= len(head)
    lines = _lines(head, whole=whole)
    if read_counts(head[:64]) is not None:
        lines = lines[1:]
    for place in np.linspace(len(head), source.size - WINDOW_BYTES, WINDOWS).astype(np.int64) if not whole else ():
        window = source.read_at(int(place), WINDOW_BYTES)
        lines += [fields for line in window.split(b"\n")[1:-1][:WINDOW_LINES] if (fields := line.split())]
    return lines


def _lines(head: bytes, *, whole: bool) -> list[list[bytes]]:
    """The fields of the head's lines; a line that the head cuts loses its last field."""
    lines = head.split(b"\n")
    cut = lines.pop()
    fields = [found for line in lines[:HEAD_LINES] if (found := line.split())]
    if cut and (whole or not fields):
        last = cut.split()
        fields.append(last if whole else last[:-1])
    return fields


def _numbers(fields: list[bytes]) -> int:
    """How many of the last fields are numbers; the first belongs to the word."""
    rest = fields[1:]
    try:
        deque(map(float, rest), maxlen=0)  # nearly always all are, and one look at them is twenty times as fast
    except ValueError:
        pass
    else:
        if b"_" not in b" ".join(rest):
            return len(rest)
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


def _usual(counts: Sequence[int]) -> int:
    """How many numbers most lines end in; lines with none do not count, and of equals the most: lines are cut, not grown."""
    voted = Counter(count for count in counts if count)
    return max(voted, key=lambda count: (voted[count], count), default=0)


def _variant(head: bytes, *, whole: bool, strict: bool = True) -> str | None:
    """Which text this is; ``strict`` where no name speaks for text: then no line may be odd."""
    if b"\0" in head:
        return None
    lines = _lines(head, whole=whole)
    counts = read_counts(head[:64])
    if counts is not None and len(lines[0]) == 2:
        rows, dim, _ = counts
        if len(lines) == 1:
            return DIMS if rows == 0 and dim >= 1 and whole else None
        if _bears_out(lines[1:], dim, whole=whole, strict=strict):
            return DIMS
    found = [_numbers(fields) >= 2 for fields in lines]
    return PLAIN if found and _enough(found, strict=strict) else None


def _bears_out(lines: list[list[bytes]], dim: int, *, whole: bool, strict: bool) -> bool:
    """Whether lines look like rows of so many numbers."""
    if not whole and len(lines) == 1 and len(lines[0]) > 1 and _numbers(lines[0]) == len(lines[0]) - 1:
        return True  # a line longer than the head
    return _enough([_numbers(fields) >= dim >= 1 for fields in lines], strict=strict)


def _enough(fits: list[bool], *, strict: bool) -> bool:
    """Whether all lines fit, or most of them."""
    return all(fits) or (not strict and 2 * sum(fits) > len(fits))


# -- lines that differ from the others


def _wider(plan: _Plan, usual: int) -> Iterator[str]:
    """A note where most lines end in more numbers than the first one says."""
    if plan.rows is not None and plan.dim < usual:
        yield (
            f"most lines hold {usual} numbers and the first one says {plan.dim}: those before the last "
            f"{plan.dim} are taken for parts of the words"
        )


def _cut_short(data: Bytes, lines: tables.Lines, plan: _Plan, *, lenient: bool) -> Iterator[str]:
    """An error for a line with too few numbers, or for fewer lines than were promised; with ``lenient`` notes."""
    counted = plan.rows is not None
    if lines.fields >= 0:
        problem = _short_line(data, lines.end, plan.dim, counted=counted)
        if not lenient or not _is_last(data, lines.end):
            raise problem
        if not counted:
            yield f"the last line is cut short and left out: {problem}"
    if plan.rows is not None and len(lines.strings) < plan.rows:
        if not lenient:
            raise Truncated(
                f"the first line promises {plan.rows} rows",
                offset=lines.end,
                field="rows",
                expected=plan.rows,
                found=len(lines.strings),
                remedy="take those that exist with --lenient",
            )
        yield f"the file is cut short: {len(lines.strings)} of {plan.rows} rows exist and are read"


def _left_over(data: Bytes, lines: tables.Lines, plan: _Plan) -> Iterator[str]:
    """A note on lines after the last that was promised."""
    if plan.rows is not None and not _is_blank(data, lines.end):
        yield f"lines after the {plan.rows} that the first one promises, from byte {lines.end} on, are ignored"


def _is_blank(data: Bytes, start: int) -> bool:
    """Whether nothing but blanks and line breaks stands from here on."""
    places = range(start, len(data), SAMPLE_BYTES)
    return not any(data[at : at + SAMPLE_BYTES].tobytes().strip(b"\n" + BLANKS) for at in places)


def _is_last(data: Bytes, start: int) -> bool:
    """Whether the line that begins here (blank ones before it aside) is the last."""
    at = start
    while at < len(data):
        piece = data[at : at + SAMPLE_BYTES]
        text = piece.tobytes()
        skipped = len(text) - len(text.lstrip(b"\n" + BLANKS)) if at == start else 0
        end = text.find(b"\n", skipped)
        if end >= 0:
            return _is_blank(data, at + end)
        at += len(text)
    return True


def _line_number(data: Bytes, offset: int) -> int:
    return 1 + sum(
        int(np.count_nonzero(data[at : min(offset, at + SAMPLE_BYTES)] == 10)) for at in range(0, offset, SAMPLE_BYTES)
    )


def _short_line(data: Bytes, at: int, dim: int, *, counted: bool) -> Corrupt:
    """The error for a line with fewer fields than a word and ``dim`` numbers."""
    line = data[at : at + SAMPLE_BYTES].tobytes()
    start = at + len(line) - len(line.lstrip(b"\n" + BLANKS))
    fields = data[start : start + SAMPLE_BYTES].tobytes().split(b"\n")[0].split()
    number = _line_number(data, start)
    why = "the first line says" if counted else "most lines have"
    return Corrupt(
        f"line {number} has {len(fields) - 1} values, and {why} {dim}",
        offset=start,
        field=f"line {number}",
        expected=f"a word and {dim} numbers",
        found=repr(b" ".join(fields)[:60].decode("utf-8", "replace")),
        remedy="mend or remove that line",
    )


def _long_lines(data: Bytes, words: tables.Table, dim: int, *, lenient: bool) -> list[str]:
    """An error that names the first line with more numbers than the others; with ``lenient`` a note."""
    for row in rows_with(words, BLANKS).tolist():
        more = _numbers(words[row].split())
        if not more:
            continue
        start = int(words.starts[row])
        number = _line_number(data, start)
        message = f"line {number} has {dim + more} values, and most lines have {dim}"
        if lenient:
            word = shown(words[row].decode(errors="replace"))
            return [f"{message}: the first are taken for a part of the word {word}"]
        raise Corrupt(
            message,
            offset=start,
            field=f"line {number}",
            expected=f"a word and {dim} numbers",
            found=repr(words[row][:60].decode(errors="replace")) + " before them",
            remedy=f"mend or remove that line, or say --dim {dim} (dim={dim}) to take what stands before for its word",
        )
    return []


FORMAT = WordText()
