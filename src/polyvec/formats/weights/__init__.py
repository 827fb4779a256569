"""EMBD `.weights`: a model's tensors with its vocabulary and metadata, made for memory mapping.

::

    header     64 bytes: "EMBD", version 1.0, flags, the place of every section, CRC-32 of bytes 0-55
    metadata   u32 entry_count, u32 total_size; entries: u16 key_length, u16 value_length, key, value
    vocabulary u32 token_count, u32 total_size, u32 special_tokens; tokens: u16 length, bytes; five u32 special ids
    index      32 bytes a tensor: FNV-1a of the name, dtype, ndim, name length, four sizes, offset; then the names
    data       the tensors, row-major, each on a multiple of 64 bytes, zeros between
    footer     CRC-32 of the data, CRC-32 of everything before the footer, "DBME", u32 0

Little endian. The tensors are the columns; ``vectors`` are the word embeddings (the first tensor where there are
none), and the vocabulary names their rows. An INT8 tensor with a FLOAT32 sibling ``<name>.scale`` is decoded with one
factor a row. The older layout of `legacy` is read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyvec.codecs import Raw, ScaledInt8
from polyvec.core.blocks import Extent, Part
from polyvec.core.collection import Collection
from polyvec.core.columns import Column, FileColumn
from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.format import Confidence, Finding, Format, Holds, Match, Peek, WriteOptions, check_rows
from polyvec.core.layout import Span
from polyvec.core.sinks import Sink
from polyvec.core.sources import Source
from polyvec.core.strict_json import parse_json
from polyvec.core.vocab import Strings, Vocab
from polyvec.formats.weights.legacy import (
    ORIENTATION,
    WORDS,
    Legacy,
    legacy_columns,
    legacy_layout,
    legacy_metadata,
    orient,
    read_legacy,
)
from polyvec.formats.weights.records import (
    CHECKSUM_ENABLED,
    DESCRIPTOR,
    DTYPES,
    FOOTER,
    HEADER,
    MAGIC,
    SPECIALS,
    TENSORS_ALIGNED,
    VOCAB_EMBEDDED,
    VOCAB_HEADER,
    Contents,
    Tensor,
)
from polyvec.formats.weights.sections import check_checksums, read_contents
from polyvec.formats.weights.writing import CREATED_AT, ENCODINGS, JSON_KEYS, choose_codec, write_weights

LEGACY_NOTE = "this is the legacy layout of EMBD files, which has no checksums and no metadata; convert it to be safe"


class Weights(Format):
    """EMBD `.weights`."""

    name = "weights"
    title = "EMBD .weights (models with vocabulary)"
    suffixes = (".weights",)
    holds = Holds(
        many_columns=True,
        vocab=True,
        metadata=True,
        encodings=ENCODINGS,
        dtypes=tuple(dtype for _, dtype in DTYPES),
        encodes_all=True,
    )
    options = (CREATED_AT,)
    reading = (ORIENTATION,)
    checksummed = True

    def sniff(self, peek: Peek) -> Sequence[Match]:
        if peek.head.startswith(MAGIC):
            return [Match(Confidence.MAGIC, 'starts with "EMBD"')]
        if peek.suffix == ".weights":
            return [Match(Confidence.SUFFIX, "suffix .weights; the magic number is missing")]
        return []

    def open(self, source: Source, *, variant: str = "", lenient: bool = False, **own: Any) -> Collection:
        contents = read_model(source, orientation=ORIENTATION.of(own))
        if isinstance(contents, Legacy):
            columns = legacy_columns(source, contents)
            metadata: dict[str, Any] = dict(legacy_metadata(contents))
            notes, tokens = [_legacy_note(contents)], contents.tokens
        else:
            if not contents.tensors:
                raise Corrupt(
                    "the file holds no tensors",
                    offset=HEADER.offset("tensor_index_count"),
                    field="tensor_index_count",
                    expected="at least 1",
                    found=0,
                )
            columns = make_columns(source, contents)
            metadata = decode_metadata(contents.metadata, source.label)
            notes, found = list(contents.notes), contents.tokens
            if contents.specials is not None:
                metadata["special_tokens"] = dict(contents.specials)
            if found is None:
                return Collection(columns, main=_main(columns), metadata=metadata, notes=notes)
            tokens = found
        main = _main(columns)
        vocab = Vocab(tokens) if len(tokens) == columns[main].rows else None
        if vocab is None and len(tokens):
            notes.append(f"the vocabulary has {len(tokens)} tokens for {columns[main].rows} rows of {main!r}: left out")
        return Collection(columns, main=main, vocab=vocab, metadata=metadata, notes=notes)

    def write(self, collection: Collection, sink: Sink, options: WriteOptions) -> None:
        write_weights(collection, sink, options)

    def target(self, collection: Collection, options: WriteOptions) -> str:
        codec = choose_codec(collection.vectors, options.encoding)
        return "int8 with row scales" if isinstance(codec, ScaledInt8) else f"raw {codec.dtype.name}"

    def check(self, source: Source, *, variant: str = "") -> Iterator[Finding]:
        contents = read_model(source, **self.said)
        if isinstance(contents, Legacy):
            yield Finding("warning", _legacy_note(contents), offset=0)
        else:
            yield from (Finding("warning", note) for note in contents.notes)
            yield from _check_padding(source, contents)
            for error in check_checksums(source, contents):
                yield Finding.of(error)
        with self.open(source, **self.said) as collection:
            yield from check_rows(collection)

    def guarded(self, source: Source, *, variant: str = "") -> bool:
        contents = read_model(source, **self.said)
        return not isinstance(contents, Legacy) and bool(contents.header["flags"] & CHECKSUM_ENABLED)

    def layout(self, source: Source, *, variant: str = "") -> list[Span]:
        contents = read_model(source, **self.said)
        if isinstance(contents, Legacy):
            return list(legacy_layout(source, contents))
        return list(_map(source, contents))


def _legacy_note(legacy: Legacy) -> str:
    return f"{LEGACY_NOTE}; {legacy.note}" if legacy.note else LEGACY_NOTE


def read_model(source: Source, *, orientation: str | None = None) -> Contents | Legacy:
    """What the file says, in the documented layout, or else in the legacy one; `FormatError` of the documented one.

    ``orientation`` is for legacy files whose shapes do not tell it; the documented layout is always [out, in].
    """
    try:
        contents = read_contents(source)
    except FormatError as error:
        legacy = read_legacy(source)
        if legacy is None:
            raise error
        return orient(legacy, orientation)
    if orientation not in (None, "out_in"):
        raise InputError(f"orientation={orientation} is for the legacy layout; this file is [out, in] by its document")
    return contents


def make_columns(source: Source, contents: Contents) -> dict[str, Column]:
    """The tensors as columns; row scales go into the column they belong to."""
    tensors = {tensor.name: tensor for tensor in contents.tensors}
    scales = {name: tensor for name, tensor in ((t.name, _scales(tensors, t)) for t in contents.tensors) if tensor}
    hidden = {tensor.name for tensor in scales.values()}
    columns: dict[str, Column] = {}
    for name, tensor in tensors.items():
        if name in hidden:
            continue
        rows, *rest = tensor.shape
        scale = scales.get(name)
        codec = ScaledInt8() if scale else Raw(tensor.dtype)
        others = (Part("scale", scale.offset),) if scale else ()
        extents = [Extent(0, rows, tensor.offset, tensor.size, codec, others=others)] if rows else []
        columns[name] = FileColumn(
            name, source, extents, row_shape=tuple(rest), dtype=codec.dtype, encoding="int8" if scale else "raw"
        )
    return columns


def _scales(tensors: dict[str, Tensor], tensor: Tensor) -> Tensor | None:
    scale = tensors.get(f"{tensor.name}.scale")
    if tensor.kind != "INT8" or not tensor.size or scale is None:
        return None
    return scale if scale.kind == "FLOAT32" and scale.shape == tensor.shape[:1] else None


def _main(columns: dict[str, Column]) -> str:
    return WORDS if WORDS in columns else next(iter(columns))


def decode_metadata(texts: dict[str, str], label: str) -> dict[str, Any]:
    """Metadata as it was given: text, and the values that were no text from their JSON."""
    values: dict[str, Any] = dict(texts)
    listed = values.pop(JSON_KEYS, None)
    if listed is not None:
        keys = parse_json(listed.encode(), path=label, field=JSON_KEYS)
        for key in keys if isinstance(keys, list) else ():
            if isinstance(key, str) and key in texts:
                values[key] = parse_json(texts[key].encode(), path=label, field=key)
    return values


def read_tensor(source: Source, tensor: Tensor) -> np.ndarray[Any, Any]:
    """A tensor without a copy: a read-only view of the mapped file, copied only where it lies unaligned."""
    view = source.mapped(tensor.offset, tensor.size).view(tensor.dtype).reshape(tensor.shape)
    return view if view.flags.aligned else view.copy()


def _check_padding(source: Source, contents: Contents) -> Iterator[Finding]:
    """The document promises zeros between tensors."""
    at = contents.header["tensor_data_offset"]
    for tensor in sorted(contents.tensors, key=lambda tensor: tensor.offset):
        if (
            contents.header["flags"] & TENSORS_ALIGNED
            and at < tensor.offset
            and source.mapped(at, tensor.offset - at).any()
        ):
            yield Finding("warning", f"padding before tensor {tensor.name!r} is not zero", offset=at, field="padding")
        at = max(at, tensor.offset + tensor.size)


def _map(source: Source, contents: Contents) -> Iterator[Span]:
    header = contents.header
    yield from HEADER.spans(0, {**header, "magic": MAGIC.decode()})
    yield Span(header["metadata_offset"], header["metadata_size"], "metadata", f"{len(contents.metadata)} entries")
    if header["flags"] & VOCAB_EMBEDDED and contents.tokens is not None:
        start = header["vocab_offset"]
        yield Span(start, VOCAB_HEADER.size, "vocabulary header")
        size = int(contents.tokens.stops[-1]) if len(contents.tokens) else 0
        yield Span(start + VOCAB_HEADER.size, size, "tokens", f"{len(contents.tokens)} tokens")
        yield Span(
            contents.specials_offset,
            SPECIALS.size,
            "special tokens",
            ", ".join(f"{name} {number}" for name, number in (contents.specials or {}).items()),
        )
    size = header["tensor_index_count"] * DESCRIPTOR.size
    yield Span(header["tensor_index_offset"], size, "tensor index", f"{header['tensor_index_count']} descriptors")
    yield Span(contents.names_offset, contents.names_size, "tensor names")
    at = header["tensor_data_offset"]
    for tensor in sorted(contents.tensors, key=lambda tensor: tensor.offset):
        if tensor.offset > at:
            yield Span(at, tensor.offset - at, "padding")
        yield Span(tensor.offset, tensor.size, tensor.name, f"{list(tensor.shape)} {tensor.kind}")
        at = max(at, tensor.offset + tensor.size)
    yield Span(source.size - FOOTER.size, FOOTER.size, "footer")


__all__ = ["FORMAT", "Strings", "Weights", "read_model", "read_tensor"]
FORMAT = Weights()
