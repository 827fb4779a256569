"""Rows of a float32 matrix: gathered, measured, and made unit or long again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.scores import sum_squares
from polyvec.kernels.strings import Bytes, Floats, Longs
from polyvec.kernels.threads import default_threads

BLOCK = 16384  # rows that NumPy measures at a time


def take_rows(data: Bytes, offsets: Longs, out: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Copy `out.shape[1]` bytes from each offset into the rows of `out`."""
    module = native()
    if module is not None:
        module.take_rows(data, offsets, out, default_threads())
        return out
    width = out.shape[1]
    if len(offsets) and (int(offsets.min()) < 0 or int(offsets.max()) + width > len(data)):
        raise IndexError("a row lies outside the bytes")
    for row, offset in enumerate(offsets.tolist()):
        out[row] = data[offset : offset + width]
    return out


def take(matrix: Floats, rows: npt.ArrayLike) -> Floats:
    """matrix[rows] as a new float32 array, gathered in parallel where the matrix is contiguous."""
    index = np.ascontiguousarray(rows, np.int64)
    plain = matrix.dtype == np.float32 and matrix.flags.c_contiguous and matrix.shape[1] > 0
    if native() is None or not plain:
        return np.array(matrix[index], np.float32)
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(matrix)):
        raise IndexError(f"a row beyond the {len(matrix)} rows of the matrix")
    width = matrix.shape[1] * 4
    out = np.empty((len(index), matrix.shape[1]), np.float32)
    take_rows(matrix.reshape(-1).view(np.uint8), index * width, out.view(np.uint8))
    return out


def row_norms(matrix: Floats) -> Floats:
    """The L2 length of each row."""
    module = native()
    norms = np.empty(len(matrix), np.float32)
    if module is not None and matrix.flags.c_contiguous:
        module.row_norms(matrix, norms, default_threads())
        return norms
    for at in range(0, len(matrix), BLOCK):
        norms[at : at + BLOCK] = np.sqrt(sum_squares(matrix[at : at + BLOCK]))
    return norms


def scale_rows(matrix: Floats, norms: Floats, *, inverse: bool = False) -> Floats:
    """Multiply each row by its norm in place, or with `inverse` divide (a row of norm 0 stays)."""
    module = native()
    if module is not None and matrix.flags.c_contiguous:
        module.scale_rows(matrix, np.ascontiguousarray(norms, np.float32), inverse, default_threads())
    elif inverse:
        np.divide(matrix, norms[:, None], out=matrix, where=(norms > 0)[:, None])
    else:
        matrix *= norms[:, None]
    return matrix


def normalize_rows(matrix: Floats) -> Floats:
    """Divide each row by its length in place; return the lengths."""
    norms = row_norms(matrix)
    scale_rows(matrix, norms, inverse=True)
    return norms
