"""Rows of a float32 matrix: gather, lengths, and the nearest rows to a query, exactly.

The nearest rows come from an 8-bit copy of the unit rows that bounds every score from both sides; the few rows
that may belong to the answer are then scored as every search scores (`kernels.scores`: float64 over the floats and the
query themselves). So the answer does not depend on the copy, and the NumPy reference, which has none, gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyvec.kernels.paths import native
from polyvec.kernels.scores import COSINE, compiled, plain_floats, query_norms, score_rows
from polyvec.kernels.strings import Bytes, Floats, Longs
from polyvec.kernels.threads import default_threads

BLOCK = 16384  # rows scored at a time where many queries share a matrix product
FLOAT_ERROR = 2e-6  # what the few float32 roundings of a score of unit vectors are off by, with room to spare
SHORT, LONG = 1e-25, 1e25  # lengths between which float32 sums neither lose nor overflow; other rows are always scored


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
    _odd: Longs = field(init=False)
    _codes: npt.NDArray[np.uint8] | None = field(init=False, default=None)
    _scales: Floats = field(init=False)
    _error: float = field(init=False, default=0.0)

    @plain_floats()
    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            self.norms = row_norms(self.matrix)
        self._odd = np.flatnonzero(~((self.norms >= SHORT) & (self.norms <= LONG)) & (self.norms != 0))

    def nearest(self, query: Floats, k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
        """The k rows of the largest cosine to the query and every row tied with the last, best first.

        A row with a NaN or an infinity has no cosine: it comes last, with NaN.
        """
        return self.nearest_many(np.asarray(query, np.float32)[None], k)[0]

    @plain_floats()
    def nearest_many(self, queries: Floats, k: int) -> list[tuple[Longs, npt.NDArray[np.float64]]]:
        """`nearest` for several queries at once: the rows are read once for all."""
        count, dim = self.matrix.shape
        k = min(k, count)
        if k == 0 or not len(queries):
            return [(np.empty(0, np.int64), np.empty(0)) for _ in queries]
        asked = np.asarray(queries, np.float32)
        units = np.stack([unit_of(query) for query in asked])
        module = compiled()
        if module is None or not self.matrix.flags.c_contiguous or not 0 < dim <= 65536:
            return self._nearest_exact(asked, units, k)
        codes, scales = self._copy()
        steps = np.abs(units).max(axis=1) / 127
        steps[steps == 0] = 1
        rounded = np.zeros((len(units), -(-dim // 64) * 64), np.int8)
        rounded[:, :dim] = np.rint(units / steps[:, None])
        off = np.linalg.norm(units - rounded[:, :dim] * steps[:, None].astype(np.float64), axis=1)
        # |q.x - q'.x'| <= |q - q'| |x| + |q'| |x - x'|, and |x| is 1; its float32 sum has 16 lanes.
        margins = (2 * (off + (1 + off) * self._error + FLOAT_ERROR + dim * 2.0**-27)).astype(np.float32)
        if len(units) == 1:
            one = np.ascontiguousarray(rounded[0, :dim])
            found = [module.scan_codes(codes, scales, one, steps[0], k, margins[0], default_threads())]
        else:
            found = module.scan_codes_many(codes, scales, rounded, steps, margins, k, default_threads())
        return [self._rank(rows, query, k) for rows, query in zip(found, asked)]

    def _copy(self) -> tuple[npt.NDArray[np.uint8], Floats]:
        if self._codes is None:
            codes = np.empty(self.matrix.shape, np.uint8)
            self._scales = np.empty(len(self.matrix), np.float32)
            error = compiled().quantize_rows(self.matrix, codes, self._scales, default_threads())
            self._error = error * (1 + self.matrix.shape[1] * 2.0**-27)
            self._scales[self._odd] = np.nan
            self._codes = codes
        return self._codes, self._scales

    def _nearest_exact(self, asked: Floats, units: Floats, k: int) -> list[tuple[Longs, npt.NDArray[np.float64]]]:
        inverse = np.divide(1, self.norms, out=np.zeros_like(self.norms), where=self.norms >= SHORT)
        inverse[self._odd] = np.nan
        # Any order of float32 additions is off by at most this.
        candidates = make_candidates(len(units), k, 2 * (FLOAT_ERROR + (units.shape[1] + 16) * 2.0**-24))
        for at in range(0, len(self.matrix), BLOCK):
            with np.errstate(all="ignore"):
                scores = units @ self.matrix[at : at + BLOCK].T
                scores *= inverse[at : at + BLOCK]
            candidates.push(np.ascontiguousarray(scores), at, default_threads())
        return [self._rank(candidates.rows(i), query, k) for i, query in enumerate(asked)]

    def _rank(self, rows: Longs, query: Floats, k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
        if len(self._odd):
            rows = np.union1d(rows, self._odd)
        wide = query.astype(np.float64)[None]
        norms = query_norms(wide)
        scores = np.empty(len(rows))
        module = compiled()
        for at in range(0, len(rows), BLOCK):
            some = take(self.matrix, rows[at : at + BLOCK])
            keys, ties = np.empty((1, len(some))), np.empty((1, len(some)))
            if module is None:
                keys, ties = score_rows(some, wide, norms, COSINE)
            else:
                module.score_rows(some, wide, norms, COSINE, keys, ties)
            scores[at : at + BLOCK] = keys[0]
        if not np.isfinite(wide).all():
            scores[:] = np.nan
        return best(rows, scores, k)


def best(rows: Longs, scores: npt.NDArray[np.float64], k: int) -> tuple[Longs, npt.NDArray[np.float64]]:
    """The k best of scored rows, best first and equal ones by row, with all that tie with the last."""
    order = np.lexsort((rows, -scores))
    ties = int(np.count_nonzero(scores[order[k:]] == scores[order[k - 1]])) if 0 < k < len(order) else 0
    kept = order[: k + ties]
    return rows[kept], scores[kept]


def unit_of(query: Floats) -> Floats:
    """A query scaled to length one, whatever its length; zero stays, what is not finite becomes zero."""
    wide = np.asarray(query, np.float64)
    most = float(np.abs(wide).max(initial=0.0))
    if not 0 < most < np.inf:
        return np.zeros(len(wide), np.float32)
    wide = wide / most
    return (wide / np.sqrt(wide @ wide)).astype(np.float32)


class Candidates:
    """The reference of the compiled candidates: for each query the rows within `margin` of its k-th best."""

    def __init__(self, queries: int, k: int, margin: float) -> None:
        self._k, self._margin = k, np.float32(margin)
        self._scores = [np.empty(0, np.float32) for _ in range(queries)]
        self._rows = [np.empty(0, np.int64) for _ in range(queries)]

    def push(self, scores: Floats, first: int, threads: int) -> None:
        """Add the scores of rows first.. for every query."""
        for query, row in enumerate(scores):
            known = np.flatnonzero(~np.isnan(row))
            both = np.concatenate([self._scores[query], row[known]])
            index = np.concatenate([self._rows[query], known + first])
            if len(both) > self._k:
                bar = np.partition(both, len(both) - self._k)[len(both) - self._k] - self._margin
                both, index = both[both >= bar], index[both >= bar]
            self._scores[query], self._rows[query] = both, index

    def rows(self, query: int) -> Longs:
        """The candidates of a query, ascending."""
        return np.sort(self._rows[query])


def make_candidates(queries: int, k: int, margin: float) -> Candidates:
    """Candidates, compiled where possible."""
    module = compiled()
    made: Candidates = (Candidates if module is None else module.Candidates)(queries, k, margin)
    return made
