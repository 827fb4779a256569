"""The vocabulary chunks: words and n-grams as they lie in the file, checked to exist, be UTF-8 and not be empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import Corrupt, FormatError, Truncated
from polyvec.core.layout import Cursor, Span
from polyvec.core.sources import Source
from polyvec.core.subwords import MAX_N, BucketIndexer, ExplicitIndexer, FastTextIndexer, FloretIndexer, Subwords
from polyvec.core.vocab import Strings
from polyvec.formats.finalfusion.structure import BUCKET, EXPLICIT, FLORET, SIMPLE, File, Words
from polyvec.kernels import strings as tables


def read_words(file: File, source: Source, kind: int, start: int, stop: int, lossy: bool) -> int:
    """The vocabulary in [start, stop); returns where it really ends, which an explicit one's length misses."""
    if kind == FLORET:
        return _read_floret(file, source, start, stop)
    if kind == EXPLICIT:
        return _read_explicit(file, source, start, stop, lossy)
    orders = [False, True] if file.dialect == "reference" else [True, False]
    problem: FormatError | None = None
    for parameters_first in orders if kind == BUCKET else [False]:
        try:
            words, end = _read_listed(file, source, kind, start, stop, lossy, parameters_first)
        except FormatError as error:
            problem = problem or error
            continue
        file.words = words
        return end
    assert problem is not None
    raise problem


def _read_listed(
    file: File, source: Source, kind: int, start: int, stop: int, lossy: bool, parameters_first: bool
) -> tuple[Words, int]:
    cursor = Cursor(source, start, stop)
    last = "bucket_exp" if kind == BUCKET else "buckets"
    values: dict[str, int] = {}
    for name, type in _fields(kind, parameters_first, last):
        values[name] = cursor.number(type, f"vocab.{name}")
    subwords: Subwords | None = None
    if kind != SIMPLE:
        ngrams = _check_ngrams(values["min_n"], values["max_n"], start)
        if kind == BUCKET:
            if values[last] > 62:
                raise Corrupt(
                    "more buckets than a file can hold",
                    offset=start,
                    field="vocab.bucket_exp",
                    expected="at most 62",
                    found=values[last],
                )
            subwords = BucketIndexer(*ngrams, values[last])
        else:
            subwords = FastTextIndexer(*ngrams, values[last])
    spans = [Span(start, cursor.offset - start, "vocab.fields", ", ".join(f"{k} {v}" for k, v in values.items()))]
    strings, end = walk_words(source, cursor.offset, stop, values["n"], 0, lossy)
    if end != stop:
        raise Corrupt(
            "the vocabulary's length does not fit its words",
            offset=start,
            field="chunk.len",
            expected=f"{end - start} bytes",
            found=f"{stop - start} bytes",
        )
    spans.append(Span(cursor.offset, end - cursor.offset, "vocab.words", f"{len(strings)} strings"))
    file.spans += spans
    return Words(strings, subwords), end


def _fields(kind: int, parameters_first: bool, last: str) -> list[tuple[str, str]]:
    count = [("n", "u8")]
    if kind == SIMPLE:
        return count
    parameters = [("min_n", "u4"), ("max_n", "u4"), (last, "u4")]
    return parameters + count if parameters_first else count + parameters


def _check_ngrams(min_n: int, max_n: int, offset: int) -> tuple[int, int]:
    if not 1 <= min_n <= max_n <= MAX_N:
        raise Corrupt(
            "the n-gram lengths are not a range",
            offset=offset,
            field="vocab.min_n, vocab.max_n",
            expected=f"1 <= min_n <= max_n <= {MAX_N}",
            found=f"{min_n}, {max_n}",
        )
    return min_n, max_n


def walk_words(
    source: Source, start: int, stop: int, count: int, gap: int, lossy: bool, what: str = "word"
) -> tuple[Strings, int]:
    """``count`` strings from ``start``, each followed by ``gap`` bytes: checked to exist, be UTF-8 and not be empty."""
    if count > max(0, stop - start) // (4 + gap):
        raise Truncated(
            f"the chunk is too short for its {what}s",
            offset=start,
            field=f"vocab.{what}s",
            expected=f"{count} strings",
            found=f"{max(0, stop - start)} bytes",
        )
    walk = tables.walk(source.mapped(0, stop), start=start, stop=stop, count=count, gap=gap)
    table = walk.strings
    if len(table) < count:
        raise Truncated(
            f"{what} {len(table)} of {count} does not fit the chunk",
            offset=walk.end,
            field=f"{what} {len(table)}",
            found=f"{stop - walk.end} bytes",
        )
    bad = tables.find_invalid(table) if walk.invalid else np.empty(0, np.int64)
    if len(bad) and not lossy:
        row = int(bad[0])
        raise Corrupt(
            f"a {what} is not valid UTF-8",
            offset=int(table.starts[row]),
            field=f"{what} {row}",
            expected="UTF-8",
            found=repr(table[row][:40]),
            remedy="replace it with lossy=True (--lenient)",
        )
    if len(bad):
        table = tables.replace_invalid(table, bad)
    empty = np.flatnonzero(table.starts == table.stops) if walk.empty else np.empty(0, np.int64)
    if len(empty) and not lossy:
        row = int(empty[0])
        raise Corrupt(
            f"a {what} is empty",
            offset=int(table.starts[row]) - 4,
            field=f"{what} {row}",
            expected="at least one byte",
            found=0,
            remedy="keep it with lossy=True (--lenient)",
        )
    return Strings.from_table(table, label=source.label), walk.end


def _read_explicit(file: File, source: Source, start: int, stop: int, lossy: bool) -> int:
    """Words, then n-grams with their rows. Some writers leave the rows out of the length, so it is not trusted."""
    cursor = Cursor(source, start)
    n_words, n_ngrams = cursor.number("u8", "vocab.n_words"), cursor.number("u8", "vocab.n_ngrams")
    min_n, max_n = cursor.number("u4", "vocab.min_n"), cursor.number("u4", "vocab.max_n")
    _check_ngrams(min_n, max_n, start + 16)
    strings, end = walk_words(source, cursor.offset, source.size, n_words, 0, lossy)
    ngrams, last = walk_words(source, end, source.size, n_ngrams, 8, False, "ngram")
    if last not in (stop, stop + 8 * n_ngrams):
        raise Corrupt(
            "the vocabulary's length does not fit its words",
            offset=start - 8,
            field="chunk.len",
            expected=f"{last - start} bytes",
            found=f"{stop - start} bytes",
        )
    if last != stop:
        file.notes.append(f"the explicit vocabulary's length is {last - stop} bytes short, as some writers leave it")
    data = source.mapped(0, last)
    rows = np.zeros((n_ngrams, 8), np.uint8)
    if n_ngrams:
        rows[:] = data[ngrams.stops[:, None] + np.arange(8)]
    targets, note = _renumber(rows.view("<u8").reshape(-1), source, ngrams)
    if note:
        file.notes.append(note)
    file.words = Words(strings, ExplicitIndexer(min_n, max_n, ngrams, targets))
    file.spans += [
        Span(start, 24, "vocab.fields", f"n_words {n_words}, n_ngrams {n_ngrams}, min_n {min_n}, max_n {max_n}"),
        Span(start + 24, end - start - 24, "vocab.words", f"{n_words} strings"),
        Span(end, last - end, "vocab.ngrams", f"{n_ngrams} strings, each with a row"),
    ]
    return last


def _renumber(rows: NDArray[np.uint64], source: Source, ngrams: Strings) -> tuple[NDArray[np.int64], str]:
    """The rows as they are where they cover 0 to the largest; else by first appearance, as the Rust reader does."""
    distinct, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    if not len(rows) or int(distinct[-1]) == len(distinct) - 1:
        return rows.astype(np.int64), ""
    order = np.argsort(np.argsort(first))
    return order[inverse].astype(np.int64), "explicit n-gram rows have gaps and are numbered by first appearance"


def _read_floret(file: File, source: Source, start: int, stop: int) -> int:
    cursor = Cursor(source, start, stop)
    min_n, max_n = cursor.number("u4", "vocab.min_n"), cursor.number("u4", "vocab.max_n")
    buckets = cursor.number("u8", "vocab.buckets")
    hashes, seed = cursor.number("u4", "vocab.n_hashes"), cursor.number("u4", "vocab.seed")
    _check_ngrams(min_n, max_n, start)
    if not 1 <= hashes <= 4:
        raise Corrupt(
            "floret has 1 to 4 hashes", offset=start + 16, field="vocab.n_hashes", expected="1 to 4", found=hashes
        )
    if not 1 <= buckets < 1 << 62:
        raise Corrupt(
            "floret needs buckets", offset=start + 8, field="vocab.buckets", expected="1 or more", found=buckets
        )
    brackets = [cursor.text(cursor.number("u4", f"vocab.{name}"), f"vocab.{name}") for name in ("bow", "eow")]
    if cursor.left:
        raise Corrupt(
            "the vocabulary's length does not fit it",
            offset=start,
            field="chunk.len",
            expected=f"{cursor.offset - start} bytes",
            found=f"{stop - start} bytes",
        )
    file.words = Words(
        Strings.from_words([], label=source.label), FloretIndexer(min_n, max_n, buckets, hashes, seed, *brackets)
    )
    file.spans.append(Span(start, stop - start, "vocab.fields", f"floret, {buckets} buckets, {hashes} hashes"))
    return stop
