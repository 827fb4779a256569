"""Rows of a float32 matrix: gather, lengths, and the nearest rows to a query, exactly.

The nearest rows come from an 8-bit copy of the unit rows that bounds every score from both sides; the few rows
that may belong to the answer are then scored again in float64 over the floats themselves. So the answer does not
depend on the copy, and the NumPy reference, which has none, gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import default_threads, native
from polyvec.kernels.strings import Bytes, Floats, Longs

BLOCK = 16384  # rows scored at a time where many queries share a matrix product
FLOAT_ERROR = 2e-6  # what float32 products of unit vectors are off by, with room to spare


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


def dot_lanes(rows: Floats, query: Floats) -> npt.NDArray[np.float64]:
    """rows . query in float64, added in eight lanes as the compiled code adds them."""
    dim = rows.shape[1]
    padded = np.zeros((len(rows), -(-max(dim, 1) // 8) * 8))
    np.multiply(rows.astype(np.float64), query.astype(np.float64), out=padded[:, :dim])
    lanes = np.zeros((len(rows), 8))
    for at in range(0, padded.shape[1], 8):
        lanes += padded[:, at : at + 8]
    half = lanes[:, :4] + lanes[:, 4:]
    return np.asarray((half[:, 0] + half[:, 2]) + (half[:, 1] + half[:, 3]))


def row_norms(matrix: Floats) -> Floats:
    """The L2 length of each row."""
    module = native()
    norms = np.empty(len(matrix), np.float32)
    if module is not None and matrix.flags.c_contiguous:
        module.row_norms(matrix, norms, default_threads())
        return norms
    for at in range(0, len(matrix), BLOCK):
        block = matrix[at : at + BLOCK]
        squares = block.astype(np.float64)
        norms[at : at + BLOCK] = np.sqrt(_lane_sums(np.multiply(squares, squares)))
    return norms


def _lane_sums(products: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    count, dim = products.shape
    padded = np.zeros((count, -(-max(dim, 1) // 8) * 8))
    padded[:, :dim] = products
    lanes = np.zeros((count, 8))
    for at in range(0, padded.shape[1], 8):
        lanes += padded[:, at : at + 8]
    half = lanes[:, :4] + lanes[:, 4:]
    return np.asarray((half[:, 0] + half[:, 2]) + (half[:, 1] + half[:, 3]))


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


@dataclass(slots=True)
class RowSearch:
    """Exact nearest rows by cosine over a float32 matrix; keeps an 8-bit copy, a quarter of its size, once asked."""

    matrix: Floats
    norms: Floats = field(init=False)
    _codes: npt.NDArray[np.uint8] | None = field(init=False, default=None)
    _scales: Floats = field(init=False)
    _error: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.norms = row_norms(self.matrix)

    def nearest(self, query: Floats, k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
        """The k rows of the largest cosine to the query and every row tied with the last, best first."""
        return self.nearest_many(np.asarray(query, np.float32)[None], k)[0]

    def nearest_many(self, queries: Floats, k: int) -> list[tuple[Longs, npt.NDArray[np.float64]]]:
        """`nearest` for several queries at once: the rows are read once for all."""
        count, dim = self.matrix.shape
        k = min(k, count)
        if k == 0 or not len(queries):
            return [(np.empty(0, np.int64), np.empty(0)) for _ in queries]
        units = np.stack([_unit(query) for query in queries])
        module = native()
        if module is None or not self.matrix.flags.c_contiguous or not 0 < dim <= 65536:
            return self._nearest_exact(units, k)
        codes, scales = self._copy()
        steps = np.abs(units).max(axis=1) / 127
        steps[steps == 0] = 1
        rounded = np.zeros((len(units), -(-dim // 64) * 64), np.int8)
        rounded[:, :dim] = np.rint(units / steps[:, None])
        off = np.linalg.norm(units - rounded[:, :dim] * steps[:, None].astype(np.float64), axis=1)
        # |q.x - q'.x'| <= |q - q'| |x| + |q'| |x - x'|, and |x| is 1.
        margins = (2 * (off + (1 + off) * self._error + FLOAT_ERROR)).astype(np.float32)
        if len(units) == 1:
            one = np.ascontiguousarray(rounded[0, :dim])
            found = [module.scan_codes(codes, scales, one, steps[0], k, margins[0], default_threads())]
        else:
            found = module.scan_codes_many(codes, scales, rounded, steps, margins, k, default_threads())
        return [self._rank(rows, unit, k) for rows, unit in zip(found, units)]

    def _copy(self) -> tuple[npt.NDArray[np.uint8], Floats]:
        if self._codes is None:
            codes = np.empty(self.matrix.shape, np.uint8)
            self._scales = np.empty(len(self.matrix), np.float32)
            module = native()
            assert module is not None
            self._error = module.quantize_rows(self.matrix, codes, self._scales, default_threads())
            self._codes = codes
        return self._codes, self._scales

    def _nearest_exact(self, units: Floats, k: int) -> list[tuple[Longs, npt.NDArray[np.float64]]]:
        inverse = np.divide(1, self.norms, out=np.zeros_like(self.norms), where=self.norms > 0)
        candidates = make_candidates(len(units), k, 2 * FLOAT_ERROR)
        for at in range(0, len(self.matrix), BLOCK):
            scores = units @ self.matrix[at : at + BLOCK].T
            scores *= inverse[at : at + BLOCK]
            candidates.push(np.ascontiguousarray(scores), at, default_threads())
        return [self._rank(candidates.rows(i), unit, k) for i, unit in enumerate(units)]

    def _rank(self, rows: Longs, unit: Floats, k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
        module = native()
        if module is not None and self.matrix.flags.c_contiguous:
            scores = module.dot_rows(self.matrix, rows, unit)
        else:
            scores = dot_lanes(self.matrix[rows], unit)
        norms = self.norms[rows].astype(np.float64)
        scores = np.divide(scores, norms, out=np.zeros(len(rows)), where=norms > 0)
        return best(rows, scores, k)


def best(rows: Longs, scores: npt.NDArray[np.float64], k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
    """The k best of scored rows, best first and equal ones by row, with all that tie with the last."""
    order = np.lexsort((rows, -scores))
    ties = int(np.count_nonzero(scores[order[k:]] == scores[order[k - 1]])) if 0 < k < len(order) else 0
    kept = order[: k + ties]
    return rows[kept], scores[kept]


def _unit(query: Floats) -> Floats:
    vector = np.ascontiguousarray(query, np.float32)
    length = float(np.sqrt(dot_lanes(vector[None], vector)[0]))
    return vector / np.float32(length) if length > 0 else vector


class Candidates:
    """The reference of the compiled candidates: for each query the rows within `margin` of its k-th best."""

    def __init__(self, queries: int, k: int, margin: float) -> None:
        self._k, self._margin = k, np.float32(margin)
        self._scores = [np.empty(0, np.float32) for _ in range(queries)]
        self._rows = [np.empty(0, np.int64) for _ in range(queries)]

    def push(self, scores: Floats, first: int, threads: int) -> None:
        """Add the scores of rows first.. for every query."""
        for query, row in enumerate(scores):
            both = np.concatenate([self._scores[query], row])
            index = np.concatenate([self._rows[query], np.arange(first, first + len(row))])
            if len(both) > self._k:
                bar = np.partition(both, len(both) - self._k)[len(both) - self._k] - self._margin
                both, index = both[both >= bar], index[both >= bar]
            self._scores[query], self._rows[query] = both, index

    def rows(self, query: int) -> Longs:
        """The candidates of a query, ascending."""
        return np.sort(self._rows[query])


def make_candidates(queries: int, k: int, margin: float) -> Candidates:
    """Candidates, compiled where possible."""
    module = native()
    made: Candidates = (Candidates if module is None else module.Candidates)(queries, k, margin)
    return made
