"""word2vec binary: a line with the counts, then a word, a space and its float32 values, word after word.

::

    rows ' ' cols '\\n'
    rows times: word bytes (UTF-8, no space), ' ', cols float32 little endian, '\\n' (some writers leave it out)

There is no magic number: the counts, the size and where the second word begins recognise a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.blocks import MAX_BLOCK_BYTES, Array, Block, Raw, rows_per_block
from polyvec.core.collection import Collection
from polyvec.core.columns import ReaderColumn
from polyvec.core.errors import Corrupt, LossyConversion, Truncated
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions
from polyvec.core.layout import Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.spelling import check_words_too
from polyvec.formats.wordoptions import LOSSY, PLAIN_OPTIONS
from polyvec.formats.words import F32, blocks_of, prepare_plain, words_of
from polyvec.kernels import strings as tables
from polyvec.kernels.rows import take_rows

COUNTS = re.compile(rb"(\d{1,19})[ \t]+(\d{1,9})[ \t]*\r?\n")
SPACE = 32
LONG_HEAD = 4096  # what formats are recognised by


class Word2Vec(Format):
    """word2vec's binary files."""

    name = "word2vec"
    title = "word2vec binary"
    suffixes = (".bin", ".w2v")
    aliases = {"w2v": "", "bin": ""}  # noqa: RUF012
    holds = Holds(vocab=True, dtypes=(F32,), casts=True)
    options = PLAIN_OPTIONS
    reading = (LOSSY,)

    def sniff(self, peek: Peek) -> Sequence[Match]:
        counts = read_counts(peek.head)
        if counts is None:
            return (
                [Match(Confidence.SUFFIX, f"suffix {peek.suffix}; no counts in the first line")]
                if peek.suffix == ".w2v"
                else []
            )
        rows, dim, start = counts
        row = 4 * dim + 2  # a word of one byte and the space
        if not fits(peek.head, start, dim) or peek.size < start + rows * row:
            return []
        confidence = Confidence.NAMED if peek.suffix in self.suffixes else Confidence.FITS
        return [Match(confidence, f"first line {rows} {dim}, and words {dim} floats apart")]

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        counts = read_counts(source.read_at(0, 64))
        if counts is None:
            raise Corrupt(
                "the first line does not hold two counts",
                offset=0,
                field="rows, cols",
                expected="'rows cols' and a line break",
                found=repr(source.read_at(0, 24)),
            )
        rows, dim, start = counts
        if not dim or (rows > (source.size - start) // (4 * dim + 1) and not lenient):
            raise Truncated(
                f"the file is too short for {rows} words of {dim} values",
                offset=start,
                field="rows, cols",
                expected=f"at least {rows * (4 * dim + 1)} bytes",
                found=f"{source.size - start} bytes",
            )
        data = source.mapped(0, source.size)
        walk = tables.scan(data, start=start, stop=source.size, count=rows, delimiter=SPACE, gap=4 * dim, newlines=True)
        table, notes = walk.strings, []
        if len(table) < rows:
            if not lenient:
                raise Truncated(
                    f"word {len(table)} of {rows} is not whole",
                    offset=walk.end,
                    field=f"word {len(table)}",
                    expected=f"a word, a space and {4 * dim} bytes",
                    found=f"{source.size - walk.end} bytes",
                    remedy="fetch the file again, or take the whole rows with --lenient",
                )
            _refuse_no_words(table, rows, dim, data)
            notes.append(f"the file is cut short: {len(table)} of {rows} rows exist and are read")
        rest = source.read_at(walk.end, source.size - walk.end if source.size - walk.end < 4096 else 4096).strip(
            b"\r\n"
        )
        if rest and len(table) == rows:
            notes.append(f"{source.size - walk.end} bytes after the last row, from byte {walk.end} on, are ignored")
        strings = check_words(table, source, lossy=bool(own.get("lossy", lenient)))
        return Collection({"vectors": GatheredRows(data, table.stops + 1, dim)}, vocab=Vocab(strings), notes=notes)

    def prepare(self, collection: Collection, own: Mapping[str, Any]) -> tuple[Collection, list[str]]:
        return prepare_plain(collection, own, "word2vec binary", forbidden=b" \n")

    def target(self, collection: Collection, options: WriteOptions) -> str:
        return "raw float32"

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        if collection.dim < 1:
            raise LossyConversion("rows of no values cannot stand in a word2vec file; write .npy")
        table = words_of(collection).table
        counts = f"{collection.rows} {collection.dim}\n".encode()
        sink.write(counts)
        for start, stop, rows in blocks_of(collection):
            woven = tables.weave_rows(table.slice(start, stop), rows.view(np.uint8), middle=b" ", tail=b"\n")
            if not start and not fits((counts + woven[:LONG_HEAD])[:LONG_HEAD], len(counts), collection.dim):
                raise LossyConversion(
                    "the first row's bytes read as the text of numbers, so that the file would be taken for text; put "
                    "another row first, or write .vec"
                )
            sink.write(woven)
            if options.progress:
                options.progress(stop, collection.rows)

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        with self.open(source, variant=variant) as collection:
            yield from check_words_too(collection)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        counts = read_counts(source.read_at(0, 64))
        start = counts[2] if counts else 0
        return [
            Span(0, start, "counts", f"{counts[0]} {counts[1]}" if counts else ""),
            Span(start, source.size - start, "rows", "word, space, values"),
        ]


class GatheredRows(ReaderColumn):
    """Rows of `dim` floats that begin at given offsets, gathered; a stream reuses one buffer."""

    def __init__(self, data: NDArray[np.uint8], offsets: NDArray[np.int64], dim: int) -> None:
        # Not a method of its own: a circle would keep the mapping, and its descriptor, until the collector comes by.
        super().__init__(
            "vectors", (len(offsets), dim), F32, lambda start, stop: gather(data, offsets[start:stop], dim)
        )
        self._data, self._offsets = data, offsets

    @property
    def parallel(self) -> bool:
        return True

    def _take(self, indices: Array) -> Array:
        return gather(self._data, self._offsets[indices], self.shape[1])

    def _blocks(self, rows: int | None, start: int, stop: int, reuse: bool) -> Iterator[Block]:
        most = rows_per_block(self.dtype, self.row_shape)
        rows = min(rows or most, rows_per_block(self.dtype, self.row_shape, MAX_BLOCK_BYTES))
        buffer = np.empty((max(0, min(rows, stop - start)), self.shape[1]), F32)
        for at in range(start, stop, rows):
            end = min(at + rows, stop)
            part = buffer[: end - at] if reuse else np.empty((end - at, self.shape[1]), F32)
            take_rows(self._data, self._offsets[at:end], part.view(np.uint8))
            yield Block(at, {"codes": part}, Raw(self.dtype), end - at)


def gather(data: NDArray[np.uint8], offsets: NDArray[np.int64], dim: int) -> Array:
    """Rows of ``dim`` floats at the offsets given."""
    out = np.empty((len(offsets), dim), F32)
    take_rows(data, np.ascontiguousarray(offsets), out.view(np.uint8))
    return out


def _refuse_no_words(table: tables.Table, rows: int, dim: int, data: NDArray[np.uint8]) -> None:
    """`Corrupt` where the dimension of a cut file is wrong: between its rows stands no text, or inside them they end."""
    if rows and not len(table):
        raise Truncated(
            "not one whole row exists",
            field="cols",
            expected=f"a word and {4 * dim} bytes",
            remedy="fetch the file again",
        )
    some = [table[row] for row in range(1, min(len(table), 1000))]
    odd = sum(any(byte < 0x20 for byte in word) or not _is_text(word) for word in some)
    starts = table.stops[:1000] + 1
    early = (data[starts[:, None] + 4 * np.arange(dim)] == 0x0A).all(axis=0)  # the line break that ends a row
    if 2 * odd > len(some) or (len(starts) > 8 and early.any()):
        raise Corrupt(
            f"rows of {dim} values leave no words between them: the header's dimension is damaged",
            offset=0,
            field="cols",
            found=dim,
            remedy="fetch the file again; no shape is guessed",
        )


def _is_text(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_counts(head: bytes) -> tuple[int, int, int] | None:
    """Rows, dimension and where the first line ends; None where the first line is another."""
    found = COUNTS.match(head)
    return None if found is None else (int(found[1]), int(found[2]), found.end())


def fits(head: bytes, start: int, dim: int) -> bool:
    """Whether the first row is a word and then bytes that are not the text of `dim` numbers."""
    space = head.find(b" ", start)
    if dim < 1 or space <= start:
        # No rows at all, or a word as long as the head.
        return dim >= 1 and (len(head) == start or (space < 0 and len(head) >= LONG_HEAD and b"\n" not in head[start:]))
    numbers = head[space + 1 :].split(b"\n")[0].split()[: min(8, dim)]
    return not numbers or not all(_is_number(number) for number in numbers)


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_words(table: tables.Table, source: Source, *, lossy: bool) -> Strings:
    """The words, with invalid UTF-8 as an error that names its place, or replaced."""
    bad = tables.find_invalid(table)
    if len(bad) and not lossy:
        row = int(bad[0])
        raise Corrupt(
            "a word is not valid UTF-8",
            offset=int(table.starts[row]),
            field=f"word {row}",
            expected="UTF-8",
            found=repr(table[row][:40]),
            remedy="replace it with lossy=True (--lenient)",
        )
    fixed = tables.replace_invalid(table, bad) if len(bad) else table
    return Strings.from_table(fixed, label=source.label)


FORMAT = Word2Vec()
