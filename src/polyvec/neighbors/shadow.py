"""A cheap stand-in for a block of rows, with a proven bound on what it leaves out.

A shadow row is `scale * codes + center`; its codes are int8 (one scale a row), or float32 rows as they are.
`error` bounds the length of what is missing, `hat` the length of the shadow itself. Nothing here is an
estimate: every rounding of the measurement is added to the bound (docs/exact-search.md has the sums).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.kernels.paths import native
from polyvec.neighbors import reference
from polyvec.neighbors.metric import Metric

Rows = NDArray[Any]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Rounding of the float32 sums in the filter, of their inputs and of the float64 scores: far above all of them,
# far below what int8 leaves out.
SLACK = 2.0**-18
HUGE = 1e37  # lengths above it could overflow a float32 sum
FAINT = 2.0**-80  # a center is not measured from where rows are shorter: float32 differences would lose them
MEASURES = ("scale", "error", "hat", "norm", "half", "along")  # of a shadow, one entry a row
LEAST, MOST = 2.0**-450, 2.0**450  # lengths whose squares float64 holds with all their bits


def flushed(dim: int) -> float:
    """The length that float32 underflow may take from a row or add to a product, were subnormals flushed to zero."""
    return (dim + 16) * 2.0**-125


@dataclass(frozen=True, slots=True)
class RowTerms:
    """A row's side of every bound under one metric, in float32, in units of its query (docs/exact-search.md)."""

    scale: Singles  # of the codes: what a product of codes is multiplied by
    error: Singles  # the length of what the codes leave out
    length: Singles  # of the row as coded
    exact: Singles  # the part of the score that needs no approximation

    def arrays(self) -> tuple[Singles, Singles, Singles, Singles]:
        """In the order in which the compiled sieve takes them."""
        return self.scale, self.error, self.length, self.exact

    def cut(self, start: int, stop: int) -> RowTerms:
        """Those of some rows."""
        return RowTerms(*(term[start:stop] for term in self.arrays()))


@dataclass(frozen=True, slots=True)
class Frame:
    """What all shadows of one search share: the center they are measured from and the unit of length."""

    center: Singles | None
    unit: float

    @property
    def center_norm(self) -> float:
        return 0.0 if self.center is None else float(np.sqrt(np.sum(self.center.astype(np.float64) ** 2)))


@dataclass(frozen=True, slots=True)
class Shadow:
    """Codes of a block and, one entry a row, the measures that bound every score."""

    codes: NDArray[Any]  # int8, or float32 rows
    scale: Singles
    error: Singles
    hat: Singles
    norm: Floats  # |x|; NaN: the row holds a NaN or an infinity and has no score
    half: Floats  # |x - center|^2 / 2
    along: Floats  # center . (x - center)
    frame: Frame

    @property
    def rows(self) -> int:
        return len(self.scale)

    def terms(self, metric: Metric) -> RowTerms:
        """The row terms of a metric; rows that cannot be bounded get an infinite error and stay candidates."""
        unit, middle = self.frame.unit, self.frame.center_norm
        lost_length = flushed(self.codes.shape[1])
        scale, error, hat = (v.astype(np.float64) for v in (self.scale, self.error, self.hat))
        with np.errstate(all="ignore"):
            lost = np.isnan(self.norm)
            if metric is Metric.COSINE:
                zero = self.norm == 0
                by = np.where(zero | lost, 1.0, self.norm)
                scale, missing = scale / by, error / by
                length = (hat + error + middle * 2.0**-12) / by
                exact = (self.along + middle * middle) / (by * (middle or 1.0))
                # Where a length is not to be trusted, or the center's part is lost in rounding, the row is scored.
                missing[~(by >= (FAINT if middle else LEAST)) | ~(by <= MOST)] = np.inf
                for term in (scale, missing, length, exact):
                    term[zero] = 0.0
            else:
                scale, missing, length = scale / unit, error / unit, (hat + error) / unit
                if metric is Metric.L2:
                    sure = self.half * (1 - SLACK) - np.sqrt(2 * self.half) * lost_length - lost_length**2
                    exact = -np.maximum(sure, 0) / (unit * unit)
                else:
                    exact = self.along / (unit * (middle or 1.0))
            missing, length = missing * (1 + SLACK) + 1e-36, length * (1 + SLACK) + 1e-36
            terms = RowTerms(*(term.astype(np.float32) for term in (scale, missing, length, exact)))
            loose = ~np.logical_and.reduce([np.isfinite(term) for term in terms.arrays()])
            terms.scale[loose | lost] = 0
            terms.length[loose] = 0
            terms.exact[loose | lost] = 0
            terms.error[loose] = np.inf
            terms.error[lost] = 0
            terms.length[lost] = -np.inf
        return terms

    def cut(self, start: int, stop: int) -> Shadow:
        """Those of some rows."""
        if start == 0 and stop == self.rows:
            return self
        return Shadow(frame=self.frame, **{name: getattr(self, name)[start:stop] for name in ("codes", *MEASURES)})


def choose_frame(sample: Rows) -> Frame:
    """A frame from some rows: a center only where it shortens them clearly, a unit near their usual length.

    Any frame is correct; a good one makes the bounds tight.
    """
    rows = np.asarray(sample, np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    with np.errstate(all="ignore"):
        if not len(rows):
            return Frame(None, 1.0)
        mean = np.clip(rows.mean(axis=0), -HUGE, HUGE).astype(np.float32)
        plain = np.sqrt((rows**2).sum(axis=1))
        centred = np.sqrt(((rows - mean) ** 2).sum(axis=1))
        use = bool(FAINT < np.median(centred) < 0.9 * np.median(plain)) and bool(np.isfinite(mean).all())
        lengths = centred if use else plain
        lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
        usual = float(np.median(lengths)) if len(lengths) else 1.0
        unit = float(2.0 ** np.clip(np.round(np.log2(usual)), -120, 120))
    return Frame(mean if use else None, unit)


def some_rows(rows: Rows, count: int = 2048) -> Rows:
    """Some rows, evenly spread: what a frame is chosen from."""
    return rows[:: max(1, len(rows) // count)][:count]


def split(pool: ThreadPoolExecutor | None, threads: int, n: int, work: Callable[[int, int], object]) -> None:
    """Call work(start, stop) over [0, n) on the pool, in `threads` equal pieces."""
    pieces = [(n * i // threads, n * (i + 1) // threads) for i in range(threads)]
    pieces = [p for p in pieces if p[0] < p[1]]
    if pool is None or len(pieces) < 2:
        for start, stop in pieces:
            work(start, stop)
        return
    others = [pool.submit(work, *piece) for piece in pieces[1:]]
    work(*pieces[0])
    for other in others:
        other.result()


def cast_shadow(
    rows: Rows, frame: Frame, *, narrow: bool, pool: ThreadPoolExecutor | None = None, threads: int = 1
) -> Shadow:
    """The shadow of float32 or float64 rows: int8 codes where `narrow`, else float32 rows."""
    n, dim = rows.shape
    exact_copy = rows.dtype == np.float32 and frame.center is None
    codes = np.empty((n, dim), np.int8) if narrow else None
    copy = np.empty((n, dim), np.float32) if not narrow and not exact_copy else None
    scale, residue, peak = (np.empty(n, np.float32) for _ in range(3))
    squares = np.empty(n, np.int32)
    norm2, centred2, along = (np.empty(n) for _ in range(3))
    compiled = native()
    kernel = reference.shadow if compiled is None else compiled.shadow

    def work(start: int, stop: int) -> None:
        kernel(rows, frame.center, codes, copy, scale, residue, peak, squares, norm2, centred2, along, start, stop)

    split(pool, threads, n, work)
    with np.errstate(all="ignore"):
        length = np.sqrt(centred2)
        tiny = flushed(dim)
        if narrow:
            # y / scale is rounded twice and scale * (1 / scale) once: 2^-21 of the length holds them all; the
            # residue is a float32 sum of dim / 16 + 4 additions.
            error = scale * np.sqrt(residue.astype(np.float64)) * (1 + (dim / 8 + 32) * 2.0**-24) + length * 2.0**-21
            error = np.where(scale == 0, length * (1 + 2.0**-20), error) + tiny
            hat = scale * np.sqrt(squares.astype(np.float64))
        else:
            # (dim + 2) 2^-24 is above every order of float32 additions; underflow costs at most 2^-126 an operation.
            gamma = (dim + 4) * 2.0**-24
            error = length * ((2.0**-22 if copy is not None else 0.0) + gamma / max(1 - gamma, 2.0**-20)) + tiny * 4
            hat = length.copy()
            error[length > HUGE] = np.inf
        error[~np.isfinite(peak)] = np.inf
        norm = np.sqrt(norm2)
        # float32 rows with an infinite square hold a NaN or an infinity; float64 ones may only be long, or short.
        if rows.dtype == np.float32:
            norm[~np.isfinite(norm2)] = np.nan
        else:
            odd = np.flatnonzero(~((norm >= LEAST) & (norm <= MOST)))
            norm[odd] = _odd_lengths(rows[odd])
        if not narrow:
            scale[:] = 1
    body = codes if codes is not None else (rows if copy is None else copy)
    return Shadow(body, scale, _round_up(error), _round_up(hat), norm, centred2 / 2, along, frame)


def code_rows(
    rows: Rows, frame: Frame | None = None, *, pool: ThreadPoolExecutor | None = None, threads: int = 1
) -> Shadow:
    """The int8 shadow of rows of any scorable dtype; without a frame, one is chosen from them."""
    if rows.dtype in (np.int8, np.uint8):
        return adopt_codes(rows, frame)
    return cast_shadow(rows, frame or choose_frame(some_rows(rows)), narrow=True, pool=pool, threads=threads)


def _odd_lengths(rows: Floats) -> Floats:
    """Lengths whatever the scale, 0 for zero rows alone; NaN where a value is not finite."""
    most = np.abs(rows).max(axis=1, initial=0.0)
    scaled = rows / np.where(most > 0, most, 1.0)[:, None]
    lengths = most * np.sqrt((scaled * scaled).sum(axis=1))
    return np.where(np.isfinite(most), np.where(most > 0, np.maximum(lengths, 5e-324), 0.0), np.nan)


def adopt_codes(rows: NDArray[np.int8] | NDArray[np.uint8], frame: Frame | None = None) -> Shadow:
    """The shadow of int8 or uint8 rows: themselves, without any error (uint8 is shifted by 128)."""
    n, dim = rows.shape
    codes = rows if rows.dtype == np.int8 else (rows ^ np.uint8(0x80)).view(np.int8)
    center = None if rows.dtype == np.int8 else np.full(dim, 128, np.float32)
    squares = np.empty(n)
    totals = np.zeros(n)
    step = max(1, (1 << 22) // max(dim, 1))
    for start in range(0, n, step):
        wide = codes[start : start + step].astype(np.float32)
        # Sums of at most 2^14 * dim are exact in float32 up to dim 1024 and in float64 always.
        wide = wide if dim <= 1024 else wide.astype(np.float64)
        squares[start : start + step] = np.einsum("ij,ij->i", wide, wide)
        if center is not None:
            totals[start : start + step] = wide.sum(axis=1)
    along = totals * 128.0
    norm = np.sqrt(squares + 2 * along + (0 if center is None else dim * 16384.0))
    if frame is None:
        usual = float(np.sqrt(np.median(squares))) if n else 1.0
        frame = Frame(center, float(2.0 ** np.round(np.log2(max(usual, 1.0)))))
    ones = np.ones(n, np.float32)
    hat = _round_up(np.sqrt(squares))
    return Shadow(codes, ones, np.zeros(n, np.float32), hat, norm, squares / 2, along, frame)


def _round_up(values: NDArray[Any]) -> Singles:
    with np.errstate(all="ignore"):
        return np.nextafter((values * (1 + 2.0**-22)).astype(np.float32), np.float32(np.inf))
