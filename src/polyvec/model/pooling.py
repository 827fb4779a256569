"""From token vectors to one vector a text, and the outputs people ask for: normalised, cut, int8, binary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.kernels.lengths import unit_rows

OUTPUTS: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "int8": np.dtype(np.int8),
    "binary": np.dtype(np.uint8),
}

Floats = NDArray[np.float32]


def weigh_tokens(lengths: NDArray[np.int32], width: int, pooling: str) -> Floats:
    """The weight of every token in its text's vector: 1/length for the mean, one for the first token."""
    weights: Floats = (np.arange(width) < lengths[:, None]).astype(np.float32)
    if pooling == "cls":
        weights[:, 1:] = 0.0
        return weights
    return np.asarray(weights / np.maximum(lengths[:, None], 1), np.float32)


def pool(hidden: Floats, lengths: NDArray[np.int32], pooling: str) -> Floats:
    """One vector a text from [texts, tokens, width]; padding counts for nothing."""
    if pooling == "max":
        masked = np.where((np.arange(hidden.shape[1]) < lengths[:, None])[:, :, None], hidden, -np.inf)
        return np.asarray(masked.max(axis=1), np.float32)
    weights = weigh_tokens(lengths, hidden.shape[1], pooling)
    return np.asarray(np.matmul(weights[:, None, :], hidden)[:, 0], np.float32)


def normalize(vectors: NDArray[Any]) -> NDArray[Any]:
    """Rows of length one, at whatever scale they come; rows of zeros stay as they are. Takes one vector or many.

    >>> normalize(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    array = np.asarray(vectors)
    if array.dtype.kind != "f":
        array = array.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(array, axis=-1)
    fine = (lengths > 1e-12) & np.isfinite(lengths)
    unit = np.asarray(array / np.where(fine, lengths, 1)[..., None], array.dtype)
    if not fine.all():  # zeros, and rows whose squares vanish or overflow
        unit[~fine] = unit_rows(array[~fine].astype(np.float64))[0]
    return unit


def output_shape(rows: int, dim: int, truncate_dim: int | None, output: str) -> tuple[int, int]:
    """The shape `finish` gives; InputError for a cut or an output that cannot be."""
    if output not in OUTPUTS:
        raise InputError(f"output is {output!r}; there are {', '.join(OUTPUTS)}")
    width = dim if truncate_dim is None else truncate_dim
    if not isinstance(width, int) or not 1 <= width <= dim:
        raise InputError(f"truncate_dim is {truncate_dim!r}; the model gives 1 to {dim} values")
    return rows, -(-width // 8) if output == "binary" else width


def finish(pooled: Floats, *, normalized: bool, truncate_dim: int | None, output: str) -> NDArray[Any]:
    """Pooled vectors as asked for: cut, made unit length again, then as float32, int8 (x127) or packed sign bits."""
    vectors = pooled if truncate_dim is None else pooled[:, :truncate_dim]
    if normalized:
        vectors = normalize(vectors)
    if output == "int8":
        from polyvec.codecs import SymmetricInt8

        return SymmetricInt8(127.0).encode(vectors)["codes"]
    if output == "binary":
        return np.packbits(vectors > 0, axis=1)
    return vectors
