"""Rows at unit length, and their lengths, at any scale: squares neither overflow nor vanish.

Rows of ordinary size take the compiled way, which adds in float64. The few whose squares or lengths leave its range
are divided by their largest value first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from polyvec.kernels.rows import row_norms, scale_rows
from polyvec.kernels.strings import Floats

Doubles = npt.NDArray[np.float64]
SMALL, LARGE = 1e-30, 1e30  # between them float32 holds a length and its reciprocal with all its digits
UNIT = 1e-6  # how far from 1 the length of a float32 row may be that was made unit


def row_lengths(rows: npt.NDArray[Any]) -> Doubles:
    """The L2 length of each row, as if no square could overflow or vanish. NaN and infinity stay what they are."""
    values = np.asarray(rows, np.float64)
    most = np.abs(values).max(axis=-1, initial=0.0)
    scale = np.where((most > 0) & np.isfinite(most), most, 1.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scaled = values / scale[..., None]
        lengths = np.sqrt(np.einsum("...i,...i->...", scaled, scaled)) * scale
    return np.asarray(lengths)


def near_one(rows: Doubles) -> Doubles:
    """Rows times a power of two each, their largest value near 1: a cosine of them is the same, and no square is lost."""
    _, power = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    return np.asarray(np.ldexp(rows, -power[:, None]))


def unit_query(query: npt.ArrayLike) -> Doubles:
    """A finite query at length one, whatever its own; zero stays."""
    wide = np.asarray(query, np.float64)
    wide = wide / (float(np.abs(wide).max(initial=0.0)) or 1.0)
    return np.asarray(wide / (float(np.sqrt(wide @ wide)) or 1.0))


def unit_rows(rows: npt.NDArray[Any]) -> tuple[Floats, Doubles]:
    """Rows (n, dim) of floats at unit length, as float32, and the lengths that they had.

    A row whose length is 1 but for rounding stays as it is, with length 1; so do rows of zeros, with length 0, and
    rows with NaN or infinity, with length 1. float32 rows may be overwritten.
    """
    if rows.dtype == np.float32 and rows.flags.c_contiguous and rows.flags.writeable:
        unit = rows
        norms = row_norms(unit)
        with np.errstate(invalid="ignore"):
            odd = np.flatnonzero(~((norms == 0) | ((norms > SMALL) & (norms < LARGE))))
        kept = np.array(unit[odd], np.float64)
    else:
        unit, norms = np.empty(rows.shape, np.float32), np.ones(len(rows), np.float32)
        odd, kept = np.arange(len(rows)), np.asarray(rows, np.float64)
    norms[odd] = 1
    norms[np.abs(norms - 1) <= UNIT] = 1
    if len(odd) < len(unit):
        scale_rows(unit, norms, inverse=True)
    lengths = norms.astype(np.float64)
    if len(odd):
        found, values = _divided(kept)
        lengths[odd], unit[odd] = values, found
    return unit, lengths


def _divided(rows: Doubles) -> tuple[Floats, Doubles]:
    lengths = row_lengths(rows)
    finite = np.isfinite(rows).all(axis=1)
    lengths[~finite | (np.abs(lengths - 1) <= UNIT)] = 1
    most = np.abs(rows).max(axis=1, initial=0.0)
    scale = np.where(finite & (lengths != 1) & (most > 0), most, 1.0)[:, None]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled = rows / scale  # first, so that a length beyond float64 does no harm
        by = np.where(lengths == 1, 1.0, np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))[:, None]
        unit = np.divide(scaled, by, out=scaled, where=by > 0)
        return unit.astype(np.float32), lengths
