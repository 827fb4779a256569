"""The queries of a search, encoded like the shadows they meet, with the query's side of every bound.

With a center c, a query is split as q = q' + t c: for `l2` t is 1 (distances do not change when both sides
move), for `ip` and `cosine` t c is the part of q along c. What is left, q', is encoded; the rest is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyvec.neighbors.metric import Metric
from polyvec.neighbors.shadow import LEAST, MOST, SLACK, Frame, flushed

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A query's side of every bound, in float32; it faces `RowTerms` (docs/exact-search.md):

    score <= product * row.scale + query.length * row.error + query.error * row.length + query.share * row.exact
    """

    length: Singles  # of what was encoded, q'
    error: Singles  # the length of what its codes leave out, with every rounding
    share: Singles  # of the exact part of the row

    def arrays(self) -> tuple[Singles, Singles, Singles]:
        """In the order in which the compiled sieve takes them."""
        return self.length, self.error, self.share


@dataclass(frozen=True, slots=True)
class Probe:
    """Encoded queries and their terms; `threshold = alpha * key + beta - slack` in the query's own unit."""

    codes: NDArray[np.int8] | Singles
    terms: QueryTerms
    alpha: Floats
    beta: Floats
    slack: Floats


def make_probe(queries: Floats, norms: Floats, metric: Metric, frame: Frame, *, narrow: bool) -> Probe:
    """Encode float64 queries as int8 (`narrow`) or float32, with the bounds of docs/exact-search.md."""
    dim = queries.shape[1]
    unit = 1.0 if metric is Metric.COSINE else frame.unit
    middle = frame.center_norm
    with np.errstate(all="ignore"):
        part = np.zeros(len(queries))
        along = np.zeros(len(queries))
        rest = queries
        if frame.center is not None:
            center = frame.center.astype(np.float64)
            along = queries @ center
            part = np.ones(len(queries)) if metric is Metric.L2 else along / (center @ center)
            rest = queries - part[:, None] * center
        length = np.sqrt((rest * rest).sum(axis=1))
        peak = np.abs(rest).max(axis=1, initial=0.0)
        # Whole numbers that fit are their own codes: int8 collections are then searched without any error.
        whole = narrow & (peak <= 127) & (rest == np.rint(rest)).all(axis=1)
        step = np.where(whole, 1.0, peak / 127.0) if narrow else 2.0 ** np.ceil(np.log2(length))
        step = np.where((step > 0) & np.isfinite(step), step, np.where(norms > 0, norms / 127.0, 1.0))
        if metric is Metric.L2:
            step = np.where(whole, step, np.maximum(step, frame.unit * 2.0**-20))
        length += 1e-150  # squares below float64's range are not in it
        scaled = rest / step[:, None]
        codes: NDArray[np.int8] | Singles
        codes = np.clip(np.rint(scaled), -127, 127).astype(np.int8) if narrow else scaled.astype(np.float32)
        gap = rest - codes.astype(np.float64) * step[:, None]
        missing = np.sqrt((gap * gap).sum(axis=1)) * (1 + 2.0**-30) + length * 2.0**-45
        size = length if metric is Metric.L2 else norms
        tie = size * middle * (2.0**-40 + dim * 2.0**-48)
        if metric is Metric.IP:
            alpha, beta, share = 1 / (step * unit), -along / (step * unit), part * (middle or 1.0) / step
            slack = (tie + size * flushed(dim)) / (step * unit)
        elif metric is Metric.COSINE:
            alpha, beta, share = norms / step, np.zeros(len(queries)), part * (middle or 1.0) / step
            slack = norms * SLACK / step
        else:
            alpha, share = 0.5 / (step * unit), frame.unit / step
            beta = length * length / (2 * step * unit)
            slack = length * length * (2.0**-40 + dim * 2.0**-48) / (step * unit)
        error = (missing + size * SLACK) / step * (1 + SLACK) + 1e-30
        reach = (length + missing) / step * (1 + SLACK) + 1e-30
        # The row's error holds what underflow takes from a float32 product, which is no part of |q|.
        reach = reach if narrow else np.maximum(reach, 1.0)
        terms = QueryTerms(*(term.astype(np.float32) for term in (reach, error, share)))
        # What the float32 sum of the bound loses where a term or a product is below 2^-126, and a float64 key where it
        # is below 2^-1022.
        most = 16384.0 * dim if narrow else 1.0
        slack = slack + (1 + most + terms.length + terms.error + np.abs(terms.share)) * 2.0**-118 + alpha * 2.0**-1050
        loose = ~np.logical_and.reduce([np.isfinite(term) for term in (*terms.arrays(), alpha, beta, missing)])
        loose |= ~((norms >= LEAST) & (norms <= MOST)) & queries.any(axis=1)
        terms.length[loose], terms.error[loose], terms.share[loose] = np.inf, 0, 0
        codes[loose] = 0
        alpha[loose], beta[loose] = 0, -np.inf
    return Probe(codes, terms, alpha, beta, slack)
