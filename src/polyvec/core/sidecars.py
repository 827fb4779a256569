"""Sidecars: what a target format cannot hold, kept in small files beside it and found again on open.

``OUT.words.txt`` (one a line; ``.words.jsonl`` where a word holds a line break), ``OUT.ids.txt`` or ``OUT.ids.npy``,
``OUT.records.jsonl``, ``OUT.metadata.json``, and ``OUT.sidecars.json``, which ties them to the file (see `ties`).
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from polyvec.core.blocks import Extent, Raw
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.hashing import DIGEST
from polyvec.core.places import Place
from polyvec.core.plain import json_default
from polyvec.core.records import LineRecords
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json
from polyvec.core.ties import TIE, check_all_there, check_file, check_sidecar, fingerprint, read_tie, write_tie
from polyvec.core.vocab import Strings, Vocab
from polyvec.kernels import strings as tables

if TYPE_CHECKING:
    from polyvec.core.format import Holds

ENDINGS = (".words.txt", ".words.jsonl", ".ids.txt", ".ids.jsonl", ".ids.npy", ".records.jsonl", ".metadata.json")
COMPANIONS = (*ENDINGS, TIE, DIGEST)  # what lies beside a file and must not outlive it


STRINGS_AT_ONCE = 1 << 16
LINE_BREAKS = np.frombuffer(b"\n\r", np.uint8)


def lacking(collection: Collection, holds: Holds) -> list[str]:
    """What the collection has and a format does not hold: some of words, records, ids, metadata."""
    return [
        what
        for what, present, held in (
            ("words", collection.vocab is not None, holds.vocab),
            ("records", collection.records is not None, holds.records),
            ("ids", collection.ids is not None, holds.ids),
            ("metadata", bool(collection.metadata), holds.metadata),
        )
        if present and not held
    ]


def write_sidecars(collection: Collection, sink: Sink, what: Iterable[str]) -> list[str]:
    """Write sidecars beside the sink's target, committed with it; returns their names. Stale ones go at commit."""
    name = sink.name
    drop_sidecars(sink)
    written: dict[str, tuple[int, str]] = {}
    for kind in what:
        if kind == "words":
            assert collection.vocab is not None
            ending, pieces = _strings("words", collection.vocab.words)
        elif kind == "ids" and isinstance(collection.ids, Strings):
            ending, pieces = _strings("ids", collection.ids)
        elif kind == "ids":
            assert isinstance(collection.ids, Column)
            ending, pieces = ".ids.npy", _integers(collection.ids)
        elif kind == "records":
            assert collection.records is not None
            ending, pieces = ".records.jsonl", collection.records.json_lines()
        else:
            ending, pieces = ".metadata.json", iter([_json(collection.metadata, indent=2) + b"\n"])
        beside = sink.sibling(name + ending)
        digest = hashlib.sha256()
        for piece in _gathered(pieces):
            beside.write(piece)
            digest.update(piece)
        written[ending] = (beside.size, digest.hexdigest())
    if written:
        write_tie(sink, written)
    return [name + ending for ending in written]


def drop_sidecars(sink: Sink) -> None:
    """The sink writes another file: what lies beside an earlier one of this name goes when it is committed."""
    sink.discard(sink.name + ending for ending in COMPANIONS)


def keep_sidecars(sink: Sink, source: Source) -> None:
    """The sink writes the rows of ``source``, which it replaces, in another way: what lies beside them still fits."""

    def demand() -> None:
        if not source.current():
            raise InputError(f"{source.label}: another program changed the file meanwhile; run this again")

    sink.guard(demand)
    tie = read_tie(source)
    if tie is not None and fingerprint(source.read_at, source.size) == tie.fingerprint:
        write_tie(sink, tie.sidecars)  # a tie that did not hold before stays as it is, and does not hold now


def _strings(kind: str, strings: Strings) -> tuple[str, Iterator[bytes]]:
    pieces = [strings.table.slice(at, at + STRINGS_AT_ONCE) for at in range(0, len(strings), STRINGS_AT_ONCE)]
    if any(np.isin(tables.join(piece), LINE_BREAKS).any() for piece in pieces):
        return f".{kind}.jsonl", (_json(word) + b"\n" for word in strings)
    nothing = np.empty((STRINGS_AT_ONCE, 0), np.uint8)
    return f".{kind}.txt", (tables.weave_rows(p, nothing[: len(p)], middle=b"", tail=b"\n") for p in pieces)


def _integers(ids: Column) -> Iterator[bytes]:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": (ids.rows,)})
    yield head.getvalue()
    for block in ids.blocks(reuse=True):
        yield np.ascontiguousarray(block.decode(), "<i8").tobytes()


def _json(value: Any, indent: int | None = None) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=json_default)
        return text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a record or metadata cannot be kept beside the output as JSON: {error}; use --no-sidecar (sidecar=False)"
        ) from None


def _gathered(pieces: Iterator[bytes], size: int = 1 << 20) -> Iterator[bytes]:
    """Small pieces as large ones: one system call a megabyte, not one a record."""
    held: list[bytes] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    yield b"".join(held)


def attach_sidecars(collection: Collection, source: Source) -> None:
    """Find a file's sidecars and put what they hold into the collection, where it has none of its own."""
    there = set(source.beside([source.name + ending for ending in (*ENDINGS, TIE)]))
    named = [(ending, source.name + ending) for ending in ENDINGS]
    found = [(e, beside) for e, name in named if name in there and (beside := source.sibling(name)) is not None]
    try:
        tie = read_tie(source) if source.name + TIE in there else None
        if tie is not None:
            check_file(source, tie)
            for ending, beside in found:
                check_sidecar(beside, ending, tie)
            check_all_there(source, tie, [ending for ending, _ in found])
    except BaseException:
        for _, beside in found:
            beside.close()
        raise
    for ending, beside in found:
        kind = ending.split(".")[1]
        if kind == "words" and collection.vocab is None:
            collection.vocab = Vocab(read_strings(beside, collection.rows, "words"))
        elif kind == "ids" and collection.ids is None:
            collection.ids = _read_ids(beside, collection.rows)
        elif kind == "records" and collection.records is None:
            collection.records = LineRecords(beside, collection.rows)
        elif kind == "metadata":
            told = parse_json(beside.read_at(0, beside.size), path=beside.label, field="metadata")
            if not isinstance(told, dict):
                raise Corrupt("metadata is not a JSON object", path=beside.label, expected="{…}")
            collection.metadata = {**told, **collection.metadata}  # the file itself knows best
        else:
            beside.close()
            continue
        collection.on_close(beside.close)
        collection.sidecars.append(beside.name)


def read_strings(source: Source, rows: int, field: str, *, marked: bool = False) -> Strings:
    """One string a line, as offsets into the file; lines of a ``.jsonl`` are JSON strings.

    With ``marked`` a byte order mark at the start is none of the first string: editors write it, sinks do not.
    """
    data = source.mapped(0, source.size)
    if marked and source.read_at(0, 3) == codecs.BOM_UTF8:
        data = data[3:]
    stops = np.flatnonzero(data == 0x0A).astype(np.int64)
    if len(data) and data[-1] != 0x0A:
        stops = np.append(stops, len(data))
    if len(stops) != rows:
        raise Corrupt(
            f"the {field} do not match the rows",
            path=source.label,
            field=field,
            expected=f"{rows} lines",
            found=f"{len(stops)} lines",
            remedy=f"rebuild the {field} file, or remove it",
        )
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1]) if len(stops) else stops
    strings = Strings(data, starts, stops, label=source.label)
    if source.suffix != ".jsonl":
        return strings
    words = [parse_json(strings.raw(row), path=source.label, offset=int(starts[row])) for row in range(rows)]
    if not all(isinstance(word, str) for word in words):
        raise Corrupt("a line is not a JSON string", path=source.label, field=field)
    return Strings.from_words(words, label=source.label)


def _read_ids(source: Source, rows: int) -> Column | Strings:
    if source.suffix != ".npy":
        return read_strings(source, rows, "ids")
    data_offset = source.size - rows * 8
    head = source.read_at(0, max(0, min(data_offset, 4096)))
    if not head.startswith(b"\x93NUMPY") or b"'<i8'" not in head or f"({rows},)".encode() not in head:
        raise FormatError(
            "the ids do not match the rows",
            path=source.label,
            field="ids",
            expected=f"a one-dimensional int64 npy of {rows} rows",
            remedy="remove the ids file",
        )
    extent = Extent(0, rows, data_offset, rows * 8, Raw(np.dtype("<i8")))
    return FileColumn("ids", source, [extent] if rows else [], row_shape=(), encoding="raw", dtype=np.dtype("<i8"))


def sidecar_places(place: Place) -> list[Place]:
    """The sidecars that lie beside a file."""
    beside = [place.sibling(place.name + ending) for ending in ENDINGS]
    return [other for other in beside if not other.absent() and other.is_file()]
