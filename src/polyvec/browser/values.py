"""Codes and values: int8 codes of unit rows, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs.levels import Codes, norm_message, quantize_rows
from polyvec.core.errors import InputError
from polyvec.kernels.rounding import LEVELS, Rounding


def quantize(rows: NDArray[Any], *, rounding: Rounding = "norm", normalize: bool = False) -> Codes:
    """Int8 codes of unit rows (n, dim), every one within the document's bounds."""
    return quantize_rows(np.atleast_2d(rows), rounding=rounding, normalize=normalize).codes


def dequantize(codes: NDArray[Any]) -> NDArray[np.float32]:
    """float32 values of int8 codes: a true division by 127."""
    values: NDArray[np.float32] = np.divide(codes, np.float32(LEVELS), dtype=np.float32)
    return values


def validate_l2_norm(embedding: NDArray[Any]) -> None:
    """`InputError`, in the document's words, unless a decoded vector has a norm from .992 to 1.008."""
    norm = float(np.sqrt(np.sum(np.asarray(embedding, np.float64) ** 2)))
    if not 0.992 <= norm <= 1.008:
        raise InputError(norm_message(norm))
