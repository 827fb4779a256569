"""stats: what the vectors look like. Dimensions, norms, duplicates, odd rows, isotropy, intrinsic dimension.

Dimensions, norms, odd rows and exact duplicates come from all rows, in one pass over blocks (eight bytes a row are
kept, up to a limit); the figures of shape come from an evenly spread sample, whose nearest neighbours are exact.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.arguments import check_texts, check_threads
from polyvec.core.columns import Column
from polyvec.core.errors import InputError
from polyvec.core.format import Progress
from polyvec.core.progress import telling
from polyvec.neighbors.inputs import Base, check_vectors, opened, row_blocks
from polyvec.neighbors.rows import scorable
from polyvec.neighbors.scan import Scan
from polyvec.reports.histogram import histogram
from polyvec.reports.runs import spread_runs

Floats = NDArray[np.float64]

HASH_ROWS = 50_000_000  # rows whose hashes are kept: 400 MB
SAMPLE_ROWS = 20_000
NEIGHBOUR_QUERIES = 1000
NEAR = 0.9999  # cosine from which two different rows count as near-duplicates
UNIT = 1e-3  # how far a norm may be from 1 in a normalised collection: float16 rounds more than float32


@dataclass(frozen=True, slots=True)
class Dimensions:
    """One entry a dimension, over all finite rows."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]

    @property
    def constant(self) -> list[int]:
        """Dimensions that hold one value only."""
        return [d for d, (low, high) in enumerate(zip(self.minimum, self.maximum)) if low == high]


@dataclass(frozen=True, slots=True)
class Norms:
    """Lengths of the finite rows; `normalised` where all are 1 up to rounding."""

    minimum: float
    maximum: float
    mean: float
    std: float
    normalised: bool
    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Figures of the sample. A `mean_cosine` near 0 and a high `effective_rank` mean isotropy.

    `effective_rank` is (sum of variances)^2 / sum of their squares over principal axes; `top_variance` the share of the
    first axis; `isotropy` the ratio of the smallest to the largest partition function (1: isotropic);
    `intrinsic_dimension` the two-nearest-neighbour estimate; `near_duplicates` the share of sampled rows that have
    another row, not equal to them, at a cosine of at least 0.9999.
    """

    rows: int
    mean_cosine: float
    isotropy: float
    effective_rank: float
    top_variance: float
    intrinsic_dimension: float | None
    near_duplicates: float
    nearest_cosine: float | None  # median cosine to the nearest other row


@dataclass(frozen=True, slots=True)
class Stats:
    """What `stats` found."""

    source: str
    column: str
    rows: int
    dim: int
    dtype: str
    zero_rows: int
    nan_rows: int
    infinite_rows: int
    duplicates: int | None  # rows equal to an earlier one; None where there were too many rows to tell
    duplicate_examples: tuple[tuple[int, int], ...]
    dimensions: Dimensions | None
    norms: Norms | None
    shape: Shape | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = asdict(self)
        if self.dimensions is not None:
            found["dimensions"]["constant"] = self.dimensions.constant
        plain: dict[str, Any] = _told(found)
        return plain


def _told(value: Any) -> Any:
    """The value with None for what JSON cannot say: NaN and infinity."""
    if isinstance(value, dict):
        return {name: _told(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_told(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def stats(
    base: Base, *, column: str | None = None, threads: int | None = None, progress: Progress | bool | None = None
) -> Stats:
    """Look at the vectors of a file, a collection or an array.

    >>> found = stats(np.array([[1, 0], [0, 1], [1, 0]], np.float32))
    >>> found.norms.normalised, found.duplicates
    (True, 1)
    """
    check_texts(column=column)
    check_threads(threads)
    with opened(base, column) as (collection, vectors), telling(progress, vectors.rows) as tell:
        check_vectors(vectors)
        if not vectors.rows:
            raise InputError("the collection is empty; there is nothing to look at")
        walk = _Walk(vectors)
        for block in row_blocks(vectors):
            assert block.rows is not None
            walk.add(block.rows)
            if tell is not None:
                tell(block.first + block.count, vectors.rows)
        duplicates, examples = walk.duplicates()
        return Stats(
            source=collection.title,
            column=vectors.name,
            rows=vectors.rows,
            dim=vectors.row_shape[0],
            dtype=str(vectors.dtype),
            zero_rows=walk.zero,
            nan_rows=walk.nan,
            infinite_rows=walk.infinite,
            duplicates=duplicates,
            duplicate_examples=examples,
            dimensions=walk.dimensions(),
            norms=walk.norms(),
            shape=look_at_shape(vectors, threads),
        )


class _Walk:
    """Sums over all rows; means are updated by block, so that large offsets cost no precision."""

    def __init__(self, column: Column) -> None:
        dim = column.row_shape[0]
        self.zero = self.nan = self.infinite = self.finite = 0
        self._mean, self._square = np.zeros(dim), np.zeros(dim)
        self._low, self._high = np.full(dim, np.inf), np.full(dim, -np.inf)
        self._lengths: list[NDArray[Any]] = []
        self._hashes: list[NDArray[np.uint64]] | None = [] if column.rows <= HASH_ROWS else None
        rng = np.random.default_rng(0x9E3779B97F4A7C15)
        self._weights = rng.integers(0, 2**63, dim * 2, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def add(self, rows: NDArray[Any]) -> None:
        if self._hashes is not None:
            self._hashes.append(self._hash(rows))
        step = max(1, (1 << 20) // max(1, rows.shape[1]))
        for at in range(0, len(rows), step):  # pieces that stay in the cache
            self._add(rows[at : at + step].astype(np.float64))

    def _add(self, wide: Floats) -> None:
        nan = np.isnan(wide).any(axis=1)
        infinite = np.isinf(wide).any(axis=1) & ~nan
        self.nan += int(nan.sum())
        self.infinite += int(infinite.sum())
        bad = nan | infinite
        good = wide[~bad] if bad.any() else wide
        if not len(good):
            return
        total = self.finite + len(good)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = _lengths(good)
            mean = good.mean(axis=0)
            spread = ((good - mean) ** 2).sum(axis=0)
            gap = mean - self._mean
            self._square += spread + (gap * gap * (self.finite * len(good) / total) if self.finite else 0.0)
            self._mean += gap * (len(good) / total)
            self._lengths.append(_narrowed(lengths))
        self.zero += int((lengths == 0).sum())
        self.finite = total
        np.minimum(self._low, good.min(axis=0), out=self._low)
        np.maximum(self._high, good.max(axis=0), out=self._high)

    def _hash(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """A 64-bit hash of each row's bytes: equal rows have equal hashes, others differ but for chance."""
        width = 4 if rows.dtype.itemsize >= 4 else 1
        words = np.ascontiguousarray(rows).view(np.dtype(f"<u{width}")).reshape(len(rows), -1)
        out = np.empty(len(rows), np.uint64)
        step = max(1, (1 << 20) // max(1, words.shape[1]))
        weights = self._weights[: words.shape[1]]
        for at in range(0, len(rows), step):
            mixed = words[at : at + step].astype(np.uint64) * weights
            mixed ^= mixed >> np.uint64(29)
            out[at : at + step] = mixed.sum(axis=1, dtype=np.uint64)
        return out

    def duplicates(self) -> tuple[int | None, tuple[tuple[int, int], ...]]:
        """How many rows equal an earlier one, and the first few pairs."""
        if self._hashes is None:
            return None, ()
        hashes = np.concatenate(self._hashes)
        order = np.argsort(hashes, kind="stable")
        same = hashes[order[1:]] == hashes[order[:-1]]
        later = np.flatnonzero(same) + 1
        pairs = []
        for at in later[:5]:
            first = at
            while first and same[first - 1]:
                first -= 1
            pairs.append((int(order[first]), int(order[at])))
        return len(later), tuple(sorted(pairs))

    def dimensions(self) -> Dimensions | None:
        if not self.finite:
            return None
        std = np.sqrt(self._square / self.finite)
        return Dimensions(*(tuple(map(float, v)) for v in (self._mean, std, self._low, self._high)))

    def norms(self) -> Norms | None:
        if not self.finite:
            return None
        lengths = np.concatenate(self._lengths).astype(np.float64)
        low, high = float(lengths.min()), float(lengths.max())
        if not np.isfinite(high):
            return None  # a row so long that float64 cannot say how long
        longest = high or 1.0  # squares of the longest must not overflow, nor vanish
        edges, counts = histogram(lengths)
        return Norms(
            minimum=low,
            maximum=high,
            mean=longest * float((lengths / longest).mean()),
            std=longest * float((lengths / longest).std()),
            normalised=bool(np.abs(lengths - 1).max() <= UNIT),
            edges=edges,
            counts=counts,
        )


def _lengths(rows: Floats) -> Floats:
    """The norm of each row, also where squares of its values overflow or vanish."""
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    odd = np.flatnonzero(~(lengths > 1e-140) | np.isinf(lengths))
    if len(odd):
        largest = np.abs(rows[odd]).max(axis=1, initial=0.0)
        scaled = np.divide(rows[odd], largest[:, None], out=np.zeros_like(rows[odd]), where=largest[:, None] > 0)
        lengths[odd] = largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return lengths


def _narrowed(lengths: Floats) -> NDArray[Any]:
    """Lengths as float32, which is half as long, where that has them."""
    fits = (lengths == 0) | ((lengths > 1e-37) & (lengths < 3e38))
    return lengths.astype(np.float32) if fits.all() else lengths


def look_at_shape(column: Column, threads: int | None = None) -> Shape | None:
    """The figures of shape, of an evenly spread sample; None where fewer than three rows are finite and not zero."""
    runs = spread_runs(column.rows, SAMPLE_ROWS)
    parts = [scorable(column[start:stop]).astype(np.float64) for start, stop in runs]
    rows = np.concatenate(parts)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    good = np.isfinite(lengths) & (lengths > 0)
    rows, lengths = rows[good], lengths[good]
    if len(rows) < 3:
        return None
    unit = rows / lengths[:, None]
    n = len(unit)
    total = unit.sum(axis=0)
    mean_cosine = float((total @ total - n) / (n * (n - 1)))
    variances, axes = np.linalg.eigh(np.cov(unit, rowvar=False).reshape(unit.shape[1], -1))
    variances = np.maximum(variances, 0)
    spread = float(variances.sum())
    rank = spread**2 / float((variances**2).sum()) if spread > 0 else 0.0
    partition = np.exp(np.concatenate([unit @ axes, -(unit @ axes)], axis=1)).sum(axis=0)
    near, nearest, intrinsic = _neighbours(unit.astype(np.float32), rows.astype(np.float32), threads)
    return Shape(
        rows=n,
        mean_cosine=mean_cosine,
        isotropy=float(partition.min() / partition.max()),
        effective_rank=rank,
        top_variance=float(variances[-1] / spread) if spread > 0 else 1.0,
        intrinsic_dimension=intrinsic,
        near_duplicates=near,
        nearest_cosine=nearest,
    )


def _neighbours(
    unit: NDArray[np.float32], rows: NDArray[np.float32], threads: int | None
) -> tuple[float, float | None, float | None]:
    """Share of near-duplicates, median nearest cosine, and the two-nearest-neighbour dimension."""
    some = np.unique(np.linspace(0, len(unit) - 1, min(NEIGHBOUR_QUERIES, len(unit))).astype(np.int64))
    k = min(10, len(unit))
    scan = Scan(unit[some], k=k, metric="cosine", threads=threads)
    scan.feed(unit)
    ids, cosines = scan.result()
    near = 0
    nearest = []
    for row, found, scores in zip(some, ids, cosines):
        different = [(i, s) for i, s in zip(found, scores) if i != row and not np.array_equal(rows[i], rows[row])]
        if different:
            nearest.append(different[0][1])
            near += int(different[0][1] >= NEAR)
    scan = Scan(rows[some], k=k, metric="l2", threads=threads)
    scan.feed(rows)
    _, squares = scan.result()
    ratios = []
    for found in np.sqrt(np.maximum(squares, 0)):
        away = found[found > 0]
        if len(away) >= 2 and away[1] > away[0]:
            ratios.append(away[1] / away[0])
    dimension = float(len(ratios) / np.log(ratios).sum()) if len(ratios) >= 10 else None
    return near / len(some), float(np.median(nearest)) if nearest else None, dimension
