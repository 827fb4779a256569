"""Texts to embed, read as a stream: lines, JSONL, CSV, Parquet. Each comes with the record it stood in."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from polyvec.core.errors import InputError, MissingExtra, PolyvecError
from polyvec.core.places import Place
from polyvec.core.sources import open_source
from polyvec.core.streams import SourceStream
from polyvec.core.strict_json import parse_json
from polyvec.core.tables import RECODE, other_separator

KINDS = ("lines", "jsonl", "csv", "tsv", "parquet")
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
MAX_LINE = 64 << 20  # bytes: no text of a corpus, and the bound on what a line may take of memory

SAMPLE_TEXTS = 1024  # a multiple of what `position` counts by

Item = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where texts come from: a path or ``-``, how they lie there, and the field that holds the text."""

    path: str
    kind: str
    field: str

    @property
    def size(self) -> int | None:
        """Bytes of the input, where they can be known."""
        found = None if self.path == "-" else Place.of(self.path).identity()
        return None if found is None else found.size

    def fingerprint(self) -> dict[str, Any]:
        """What must not change between a run and the one that resumes it."""
        if self.path == "-":
            return {"path": "-", "kind": self.kind, "field": self.field}
        place = Place.of(self.path)
        found = place.identity()
        if found is None:
            raise FileNotFoundError(2, "No such file or directory", self.path)
        return {
            "path": place.real(),
            "stamp": found.to_json(),
            "kind": self.kind,
            "field": self.field,
        }


def open_corpus(path: str | os.PathLike[str], *, kind: str | None = None, field: str | None = None) -> Corpus:
    """A corpus by its suffix (``kind`` overrides); plain lines where the suffix says nothing."""
    name = os.fspath(path)
    chosen = kind or _SUFFIXES.get(Place.of(name).suffix, "lines")
    if chosen not in KINDS:
        raise InputError(f"input kind is {chosen!r}; there are {', '.join(KINDS)}")
    if name == "-" and chosen == "parquet":
        raise InputError("Parquet cannot be read from standard input; name a file")
    if chosen == "lines" and field is not None:
        raise InputError("plain lines have no fields; --field belongs to JSONL, CSV and Parquet")
    if name != "-" and not Place.of(name).is_file():
        raise FileNotFoundError(2, "No such file or directory", name)
    return Corpus(name, chosen, field or "text")


def read_items(corpus: Corpus, position: Callable[[int], None] | None = None) -> Iterator[Item]:
    """(text, record) of every item in order; ``position`` is told how many bytes were read."""
    if corpus.kind == "parquet":
        yield from _parquet(corpus)
        return
    with _stream(corpus.path) as stream:
        if corpus.kind in ("csv", "tsv"):
            yield from _csv(corpus, stream, position)
            return
        for number, line in _lines(corpus.path, stream, position):
            if corpus.kind == "lines":
                text = _decode(line, corpus.path, number)
                yield text, {"text": text}
            elif line.strip():
                record = parse_json(line, path=corpus.path, field=f"line {number}")
                yield _text_of(record, corpus, f"line {number}"), record


def count_texts(corpus: Corpus) -> int:
    """About how many texts there are, told from the first of them; 0 where nothing is known before they are read."""
    read = 0

    def position(done: int) -> None:
        nonlocal read
        read = done

    if corpus.size is None:
        return 0
    try:
        if corpus.kind == "parquet":
            return _parquet_rows(corpus)
        texts = sum(1 for _ in islice(read_items(corpus, position), SAMPLE_TEXTS))
    except (PolyvecError, OSError):
        return 0  # the run itself says what is wrong, and where
    return texts if texts < SAMPLE_TEXTS or not read else int(texts * corpus.size / read)


@contextmanager
def _stream(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    with open_source(path) as source, io.BufferedReader(SourceStream(source), 1 << 20) as stream:
        yield stream


def _lines(path: str, stream: BinaryIO, position: Callable[[int], None] | None) -> Iterator[tuple[int, bytes]]:
    number = done = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        done += len(line)
        if len(line) > MAX_LINE:
            raise InputError(f"{path}: line {number} is longer than {MAX_LINE >> 20} MB; this is no text file")
        if position is not None and number % 256 == 0:
            position(done)
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield number, line.rstrip(b"\r\n")


def _decode(line: bytes, path: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: line {number} is not valid UTF-8 at byte {error.start} of the line; {RECODE}"
        ) from None


def _text_of(record: Any, corpus: Corpus, where: str) -> str:
    if not isinstance(record, dict):
        raise InputError(
            f"{corpus.path}: {where} is {type(record).__name__}, not an object with a field {corpus.field!r}"
        )
    if corpus.field not in record:
        raise InputError(
            f"{corpus.path}: {where} has no field {corpus.field!r}; "
            f"it has {', '.join(list(record)[:8])}: choose with --field"
        )
    text = record[corpus.field]
    if not isinstance(text, str):
        raise InputError(f"{corpus.path}: {where}: field {corpus.field!r} is {type(text).__name__}, not text")
    return text


def _csv(corpus: Corpus, stream: BinaryIO, position: Callable[[int], None] | None) -> Iterator[Item]:
    csv.field_size_limit(MAX_LINE)
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter="\t" if corpus.kind == "tsv" else ",", strict=True)
    try:
        names = next(reader, None)
        if names is None or corpus.field not in names:
            there = ", ".join((names or [])[:8])
            other = other_separator(names or [], corpus.field, wanted="tabs" if corpus.kind == "tsv" else "commas")
            raise InputError(
                f"{corpus.path}: no column {corpus.field!r}; there are {there}: "
                + ("choose with --field" if other is None else other)
            )
        if len(set(names)) != len(names):
            raise InputError(f"{corpus.path}: two columns have the same name")
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise InputError(
                    f"{corpus.path}: line {reader.line_num} has {len(row)} fields, and the first line {len(names)}"
                )
            if position is not None and reader.line_num % 256 == 0 and corpus.path != "-":
                position(stream.tell())
            record = dict(zip(names, row))
            yield record[corpus.field], record
    except UnicodeDecodeError:
        if corpus.path != "-":  # the text is decoded ahead of the reader: only the lines themselves tell which
            with _stream(corpus.path) as again:
                for number, line in _lines(corpus.path, again, None):
                    _decode(line, corpus.path, number)
        raise InputError(f"{corpus.path}: not valid UTF-8 after line {reader.line_num}; {RECODE}") from None
    except csv.Error as error:
        raise InputError(f"{corpus.path}: line {reader.line_num}: {error}") from None
    finally:
        text.detach()


def _parquet_rows(corpus: Corpus) -> int:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return 0
    try:
        return int(parquet.read_metadata(corpus.path).num_rows)
    except ArrowException:
        return 0


def _parquet(corpus: Corpus) -> Iterator[Item]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("pyarrow", extra="arrow", purpose="Parquet files") from None
    try:
        with parquet.ParquetFile(corpus.path) as file:
            if corpus.field not in file.schema_arrow.names:
                names = ", ".join(file.schema_arrow.names[:8])
                raise InputError(f"{corpus.path}: no column {corpus.field!r}; there are {names}: choose with --field")
            number = 0
            for batch in file.iter_batches(batch_size=4096):
                for record in batch.to_pylist():
                    number += 1
                    yield _text_of(record, corpus, f"row {number}"), record
    except pyarrow.ArrowException as error:
        raise InputError(f"{corpus.path}: not a readable Parquet file: {str(error).splitlines()[0]}") from None
