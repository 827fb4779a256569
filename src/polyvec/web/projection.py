"""The map: rows as points of a plane. PCA by default; t-SNE, which shows clusters better, with the extra ``map``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyvec.core.columns import Column
from polyvec.core.errors import InputError, MissingExtra
from polyvec.kernels import lengths

METHODS = ("pca", "tsne")
SAMPLE_ROWS = 20_000  # rows that PCA is fitted on, spread evenly
SAMPLE_BYTES = 128 << 20
BATCH_BYTES = 16 << 20
MOST_TSNE_ROWS = 200_000
UNIT = 65535

Floats = NDArray[np.float32]
Tell = Callable[[int, int], None] | None


@dataclass(frozen=True, slots=True)
class Plane:
    """Points (n, 2) as 16-bit whole numbers, and what the page says of them."""

    points: NDArray[np.uint16]
    note: str


def project(column: Column, rows: NDArray[np.int64] | None = None, *, method: str = "pca", tell: Tell = None) -> Plane:
    """Lay rows of a column (all of them, or those numbered) out on a plane; deterministic.

    Rows are brought to length one first, as search does; ``tell`` is called with rows done and in all.
    """
    if method not in METHODS:
        raise InputError(f"unknown projection {method!r}; there are {', '.join(METHODS)}")
    count = column.rows if rows is None else len(rows)
    if method == "tsne":
        return _tsne(column, rows, count)
    mean, axes, explained = _fit(column, rows, count)
    flat = np.zeros((count, 2), np.float32)
    at = 0
    for batch in _batches(column, rows):
        flat[at : at + len(batch)] = (batch - mean) @ axes[:, :2]
        at += len(batch)
        if tell:
            tell(at, count)
    if explained is None:  # what is left of the mean is rounding, which to_points would spread over the whole plane
        return Plane(to_points(np.zeros_like(flat)), "all rows have one direction: there is nothing to spread out")
    return Plane(to_points(flat), f"PCA: the two axes hold {explained:.0%} of the variance")


def _batches(column: Column, rows: NDArray[np.int64] | None) -> Iterator[Floats]:
    step = max(1, BATCH_BYTES // max(1, 4 * column.shape[1]))
    count = column.rows if rows is None else len(rows)
    for start in range(0, count, step):
        taken = column[start : start + step] if rows is None else column.take(rows[start : start + step])
        yield unit_rows(taken)


def unit_rows(rows: NDArray[np.generic]) -> Floats:
    """Rows as float32 of length one; those without a direction become zero."""
    given = np.asarray(rows)
    x = given.astype(np.float32 if given.dtype.itemsize <= 4 else np.float64)
    x[~np.isfinite(x)] = 0.0
    return lengths.unit_rows(x)[0]


def _fit(
    column: Column, rows: NDArray[np.int64] | None, count: int, width: int = 8
) -> tuple[Floats, Floats, float | None]:
    """The mean, the first axes and the share of variance they hold (None without any), by subspace iteration on a sample."""
    dim = column.shape[1]
    most = max(2, min(SAMPLE_ROWS, SAMPLE_BYTES // max(1, 4 * dim)))
    picked = np.unique(np.linspace(0, max(0, count - 1), min(count, most)).astype(np.int64))
    sample = unit_rows(column.take(picked if rows is None else rows[picked]))
    mean = sample.mean(axis=0)
    sample -= mean
    width = min(dim, width)
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, width)).astype(np.float32))[0]
    for _ in range(12):
        axes = np.linalg.qr(sample.T @ (sample @ axes))[0]
    small = np.linalg.svd(sample @ axes, full_matrices=False)
    axes = axes @ small[2].T
    width = axes.shape[1]  # fewer than asked for where there are fewer rows
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(width)])
    axes = np.pad(axes * np.where(signs == 0, 1, signs), ((0, 0), (0, max(0, 2 - width)))).astype(np.float32)
    total = float((sample.astype(np.float64) ** 2).sum())
    held = float((small[1][:2].astype(np.float64) ** 2).sum())
    return mean, axes, min(1.0, held / total) if total > 1e-12 * len(sample) else None


def _tsne(column: Column, rows: NDArray[np.int64] | None, count: int) -> Plane:
    try:
        from openTSNE import TSNE  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise MissingExtra("openTSNE", extra="map", purpose="t-SNE maps") from None
    if not 10 <= count <= MOST_TSNE_ROWS:
        raise InputError(f"t-SNE maps take 10 to {MOST_TSNE_ROWS:,} rows, not {count:,}; use the pca projection")
    layout = TSNE(
        perplexity=min(30, (count - 1) / 3),
        metric="cosine",
        initialization="pca",
        random_state=0,
        n_jobs=-1 if count > 5000 else 1,
    )
    if 4 * count * column.shape[1] <= SAMPLE_BYTES:
        flat = layout.fit(np.concatenate(list(_batches(column, rows))))
    else:  # fifty axes hold what matters to neighbours, and fit in memory
        mean, axes, _ = _fit(column, rows, count, width=50)
        flat = layout.fit(np.concatenate([(batch - mean) @ axes for batch in _batches(column, rows)]))
    return Plane(to_points(np.asarray(flat, np.float32)), "t-SNE: near points are alike, far ones need not differ")


def to_points(flat: Floats) -> NDArray[np.uint16]:
    """Coordinates as 16-bit numbers, one scale for both axes; the outermost half percent is held at the rim."""
    if not len(flat):
        return np.zeros((0, 2), np.uint16)
    low, high = np.percentile(flat, [0.25, 99.75], axis=0)
    middle, span = (low + high) / 2, float((high - low).max())
    if not span > 0:
        return np.full((len(flat), 2), UNIT // 2, np.uint16)
    placed = np.clip((flat - middle) / (span * 1.06) + 0.5, 0, 1)
    points: NDArray[np.uint16] = np.rint(placed * UNIT).astype(np.uint16)
    return points
