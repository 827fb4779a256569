"""The layout that the document's own program really reads: older, simpler, and recognised by its structure alone.

::

    "EMBD", u32 version = 1, u32 num_tensors
    a tensor: u32 name_len, name, u32 ndim, u32 dims[ndim], float32 data
    u32 vocab_size; a token: u32 len, bytes

Its first eight bytes are those of the documented format. The program's own files keep Linear weights transposed,
[in, out], those of its converter script [out, in], and nothing in the layout says which. The shapes do: a bias is as long
as its matrix has outputs, and one matrix that is not square tells for all. Where none does, ``orientation`` must be said.
The columns are [out, in] always, the way every other file keeps them. Read only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from polyvec.core.blocks import Array, Extent, Raw
from polyvec.core.columns import Column, FileColumn, ReaderColumn
from polyvec.core.errors import AmbiguousFormat, Corrupt, FormatError, InputError
from polyvec.core.layout import Cursor, Span
from polyvec.core.options import Option
from polyvec.core.sources import Source
from polyvec.core.vocab import Strings
from polyvec.formats.weights.records import MAGIC
from polyvec.formats.weights.vocabulary import read_tokens

_FLOAT = np.dtype("<f4")
_MAX_NAME = 65_535
WORDS = "embeddings.word_embeddings.weight"
ORIENTATION = Option(
    "orientation",
    str,
    "How linear weights lie in a file of the older layout, where nothing tells.",
    ("out_in", "in_out"),
)


@dataclass(frozen=True, slots=True)
class LegacyTensor:
    """A tensor as it lies in the file."""

    name: str
    shape: tuple[int, ...]
    offset: int
    size: int
    start: int  # of its entry

    @property
    def linear(self) -> bool:
        """Whether it is a Linear weight, a matrix from inputs to outputs."""
        return len(self.shape) == 2 and self.name.endswith(".weight") and not self.name.startswith("embeddings.")


@dataclass(frozen=True, slots=True)
class Legacy:
    """Everything a legacy file holds."""

    tensors: tuple[LegacyTensor, ...]
    tokens: Strings
    tokens_offset: int
    orientation: str = ""  # of Linear weights, a choice of ORIENTATION; empty where there are none
    told_by: str = ""  # the tensor whose shape tells it

    @property
    def note(self) -> str:
        """One line on how the matrices lie; empty where there are none."""
        if not self.orientation:
            return ""
        stored = "[out, in]" if self.orientation == "out_in" else "[in, out]"
        return f"linear weights are stored {stored}, as {f'{self.told_by} tells' if self.told_by else 'was said'}"


def orient(legacy: Legacy, asked: str | None = None) -> Legacy:
    """The file with the orientation of its matrices: as their shapes tell, or as asked where those leave it open.

    `AmbiguousFormat` where nothing tells and nothing was asked; `Corrupt` where the shapes contradict each other.
    """
    linear = [tensor for tensor in legacy.tensors if tensor.linear]
    if not linear:
        return legacy
    shapes = {tensor.name: tensor.shape for tensor in legacy.tensors}
    evidence: dict[str, str] = {}
    for tensor in linear:
        for orientation, witness in _evidence(tensor, shapes):
            evidence.setdefault(orientation, witness)
    if len(evidence) > 1:
        raise Corrupt(
            "some matrices are stored [out, in] and some [in, out]",
            field="shape",
            found=f"{evidence['out_in']} tells the one, {evidence['in_out']} the other",
        )
    if not evidence and asked is None:
        raise AmbiguousFormat(
            "the legacy layout does not say whether matrices are stored [out, in] or [in, out], and these are square or "
            "without a bias, so their shapes leave it open",
            field=linear[0].name,
            found=list(linear[0].shape),
            remedy="convert it and say which: --option orientation=out_in, as PyTorch and the converter script store them, "
            "or orientation=in_out, as the format's own program does (in Python pv.open(path, orientation=))",
        )
    told, witness = next(iter(evidence.items()), (asked or "", ""))
    if asked is not None and asked != told:
        raise InputError(f"orientation={asked} contradicts the file: by {witness} its matrices are stored {told}")
    return replace(legacy, orientation=told, told_by=witness)


def _evidence(tensor: LegacyTensor, shapes: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    """What the neighbours of a matrix say of its sides: its bias, the norm after it, the width of the words."""
    first, second = tensor.shape
    if first == second:
        return
    stem = tensor.name.removesuffix(".weight")
    parent = stem.rpartition(".")[0]
    outputs = [f"{stem}.bias", f"{parent}.LayerNorm.bias", f"{parent}.LayerNorm.weight"]
    for name in outputs:
        size = shapes.get(name, ())
        if len(size) == 1:
            if size[0] in tensor.shape:
                yield ("out_in" if size[0] == first else "in_out"), name
            elif name == outputs[0]:
                raise Corrupt(
                    f"the bias does not belong to its matrix {tensor.name!r}",
                    field=name,
                    expected=f"{first} or {second} values",
                    found=f"{size[0]}",
                )
    width = shapes.get(WORDS, (0, 0))[-1]
    if width in tensor.shape and parent.endswith(("output", "intermediate")) and stem.endswith(".dense"):
        wide_first = parent.endswith("output")  # from the inner width back to that of the words
        yield ("out_in" if (width == first) == wide_first else "in_out"), WORDS


def read_legacy(source: Source) -> Legacy | None:
    """The file in the legacy layout; None unless it is that to the last byte."""
    if source.size < 16 or source.read_at(0, 8) != MAGIC + b"\1\0\0\0":
        return None
    try:
        return _read(source)
    except FormatError:
        return None


def _read(source: Source) -> Legacy | None:
    cursor = Cursor(source, 8)
    count = cursor.number("u4", "num_tensors")
    cursor.require(count * 13, "num_tensors")  # a name length, one letter, ndim, one size
    tensors: list[LegacyTensor] = []
    names: set[str] = set()
    for _ in range(count):
        start = cursor.offset
        length = cursor.number("u4", "name_len")
        if not 0 < length <= _MAX_NAME:
            return None
        name = cursor.text(length, "name")
        ndim = cursor.number("u4", "ndim")
        if not 1 <= ndim <= 4 or name in names:
            return None
        shape = struct.unpack(f"<{ndim}I", cursor.take(4 * ndim, "dims"))
        size = prod(shape) * _FLOAT.itemsize
        tensors.append(LegacyTensor(name, shape, cursor.skip(size, name), size, start))
        names.add(name)
    place = cursor.offset
    words = cursor.number("u4", "vocab_size")
    cursor.require(words * 4, "vocab_size")
    data = np.frombuffer(cursor.take(cursor.left, "tokens"), np.uint8)
    tokens = read_tokens(data, words, place + 4, 4, source.label)
    end = int(tokens.stops[-1]) if words else 0
    return Legacy(tuple(tensors), tokens, place) if tensors and end == len(data) else None


def legacy_columns(source: Source, legacy: Legacy) -> dict[str, Column]:
    """The tensors as columns, Linear weights as [out, in]."""
    columns: dict[str, Column] = {}
    for tensor in legacy.tensors:
        if tensor.linear and legacy.orientation == "in_out":
            columns[tensor.name] = _turned(source, tensor)
        else:
            rows, *rest = tensor.shape
            extents = [Extent(0, rows, tensor.offset, tensor.size, Raw(_FLOAT))] if rows else []
            columns[tensor.name] = FileColumn(
                tensor.name, source, extents, row_shape=tuple(rest), encoding="raw", dtype=_FLOAT
            )
    return columns


def _turned(source: Source, tensor: LegacyTensor) -> Column:
    rows, columns = tensor.shape

    def read(start: int, stop: int) -> Array:
        stored = source.mapped(tensor.offset, tensor.size).view(_FLOAT).reshape(rows, columns)
        return np.ascontiguousarray(stored[:, start:stop].T)

    return ReaderColumn(tensor.name, (columns, rows), _FLOAT, read)


def legacy_metadata(legacy: Legacy) -> dict[str, str]:
    """The sizes that the shapes tell; the layout itself keeps none. Heads are 32 wide in MiniLM, 64 in BERT."""
    shapes = {tensor.name: tensor.shape for tensor in legacy.tensors}
    words = shapes.get(WORDS, (0, 0))
    if len(words) != 2 or not words[1]:
        return {}
    layers = {name.split(".")[2] for name in shapes if name.startswith("encoder.layer.")}
    inner = shapes.get("encoder.layer.0.intermediate.dense.bias", (0,))
    width = words[1]
    return {
        "model_name": "legacy",
        "model_version": "0",
        "embedding_dim": str(width),
        "vocab_size": str(words[0]),
        "num_layers": str(len(layers)),
        "num_attention_heads": str(max(1, width // (32 if width == 384 else 64))),
        "hidden_size": str(width),
        "intermediate_size": str(inner[0]),
        "max_position_emb": str(shapes.get("embeddings.position_embeddings.weight", (0,))[0]),
        "created_at": "1970-01-01T00:00:00Z",
    }


def legacy_layout(source: Source, legacy: Legacy) -> Iterator[Span]:
    """The byte map."""
    yield Span(0, 12, "legacy header", f"{len(legacy.tensors)} tensors")
    for tensor in legacy.tensors:
        turned = f", {legacy.orientation}" if tensor.linear else ""
        yield Span(tensor.start, tensor.offset - tensor.start, f"entry {tensor.name}")
        yield Span(tensor.offset, tensor.size, tensor.name, f"{list(tensor.shape)} FLOAT32{turned}")
    yield Span(legacy.tokens_offset, source.size - legacy.tokens_offset, "vocabulary", f"{len(legacy.tokens)} tokens")
