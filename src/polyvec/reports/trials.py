"""Encodings on trial: what rows become when a file keeps them in fewer bytes.

A trial is fitted once on a look at the rows (ranges and a sample), then gives back the rows of each block as a
reader of such a file would see them. Nothing is written. Those that `convert` writes name the file it makes: they are
measured with the codec, the ranges and the chunks of that file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.codecs import AffineUint8, BFloat16, Float16, ScaledInt8
from polyvec.codecs.affine import step_of
from polyvec.codecs.product import bring_near
from polyvec.core.blocks import Block, Codec
from polyvec.core.errors import InputError
from polyvec.formats import near
from polyvec.formats.cvc.encoding import CHUNK_ROWS
from polyvec.kernels.paths import native
from polyvec.kernels.threads import resolve_threads

Singles = NDArray[np.float32]
Numbers = NDArray[np.int64]
Decode = Callable[[Singles, Numbers], Singles]  # rows and their numbers in the file

PQ_DIMS = 8  # dimensions a byte of product quantisation stands for
PQ_ROUNDS = 10
CENTROIDS = 256


@dataclass(frozen=True, slots=True)
class Look:
    """What fitting may know of the rows."""

    low: float
    high: float
    sample: Singles
    ranges: dict[int, tuple[float, float]] = field(default_factory=dict)  # chunk of CHUNK_ROWS rows -> its range


@dataclass(frozen=True, slots=True)
class Target:
    """What `convert` writes for a trial."""

    suffix: str
    encoding: str
    finite: bool = False  # whether it refuses NaN and infinity


@dataclass(frozen=True, slots=True)
class Trial:
    """An encoding: bytes a row of `dim` values takes, and how to fit it."""

    name: str
    title: str
    row_bytes: Callable[[int], float]
    fit: Callable[[Look], Decode]
    target: Target | None = None


def through(codec: Codec, rows: Singles) -> Singles:
    """Rows through a codec and back."""
    decoded: Singles = codec.decode(Block(0, codec.encode(rows), codec, len(rows)))
    return decoded


def fit_chunks(look: Look) -> Decode:
    """Affine uint8 with a range for each chunk of rows, as CVC files have it."""
    ranges = look.ranges or {0: (look.low, look.high)}
    codecs = {chunk: AffineUint8.fit([np.array([ends], np.float32)]) for chunk, ends in ranges.items()}

    def decode(rows: Singles, numbers: Numbers) -> Singles:
        out = np.empty_like(rows)
        chunks = numbers // CHUNK_ROWS
        edges = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(rows)]
        for start, stop in pairwise(edges):
            if start < stop:
                out[start:stop] = through(codecs[int(chunks[start])], rows[start:stop])
        return out

    return decode


def four_bits(rows: Singles) -> Singles:
    """Codes -7..7, two a byte, with a float32 scale a row."""
    scale = step_of(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), 7)
    scale[scale == 0] = 1
    out: Singles = (np.rint(rows / scale) * scale).astype(np.float32)
    return out


def one_bit(rows: Singles) -> Singles:
    """The sign of each value, with a float32 scale a row: its mean size."""
    scale = np.abs(rows).mean(axis=1, keepdims=True, dtype=np.float64)
    out: Singles = np.where(rows < 0, -scale, scale).astype(np.float32)
    return out


def fit_product(look: Look) -> Decode:
    """Product quantisation: 256 centroids for each group of dimensions, by k-means on the sample."""
    sample = look.sample
    if len(sample) < 2:
        raise InputError("product quantisation needs at least 2 rows to learn from")
    rng = np.random.default_rng(0)
    groups = [(at, min(at + PQ_DIMS, sample.shape[1])) for at in range(0, sample.shape[1], PQ_DIMS)]
    books = [_centroids(sample, first, last, rng) for first, last in groups]

    def decode(rows: Singles, numbers: Numbers) -> Singles:
        out = np.empty_like(rows)
        for (first, last), book in zip(groups, books):
            out[:, first:last] = book[nearest(rows, first, book)]
        return out

    return decode


def _centroids(sample: Singles, first: int, last: int, rng: np.random.Generator) -> Singles:
    points = np.ascontiguousarray(sample[:, first:last])  # ten rounds over a strided sample would miss the cache
    book = points[rng.choice(len(points), CENTROIDS, replace=len(points) < CENTROIDS)].copy()
    for _ in range(PQ_ROUNDS):
        near = nearest(points, 0, book)
        sizes = np.bincount(near, minlength=CENTROIDS)
        sums = np.stack([np.bincount(near, points[:, d], CENTROIDS) for d in range(last - first)], axis=1)
        full = sizes > 0
        book[full] = (sums[full] / sizes[full, None]).astype(np.float32)
        if len(points) > CENTROIDS:
            book[~full] = points[rng.integers(0, len(points), int((~full).sum()))]
    return book


def nearest(rows: Singles, first: int, book: Singles) -> NDArray[np.uint8]:
    """The nearest centroid of each row's values from column `first` on; the first of equal ones."""
    near, scaled = bring_near(rows[:, first : first + book.shape[1]], book)
    if scaled is not book:
        rows, book, first = near, scaled, 0
    turned = np.ascontiguousarray(book.T)
    start = (-(book.astype(np.float64) ** 2).sum(axis=1) / 2).astype(np.float32)
    out = np.empty(len(rows), np.uint8)
    compiled = native()
    if compiled is not None:
        compiled.nearest(np.ascontiguousarray(rows), first, turned, start, out, resolve_threads(None))
        return out
    for at in range(0, len(rows), 4096):
        piece = rows[at : at + 4096]
        scores = np.broadcast_to(start, (len(piece), CENTROIDS)).copy()
        with np.errstate(all="ignore"):
            for d, line in enumerate(turned):
                scores += line * piece[:, first + d, None]
        out[at : at + 4096] = scores.argmax(axis=1)
    return out


def truncated(share: float) -> Callable[[Look], Decode]:
    """The first dimensions only, in float32; the others read as zero."""

    def fit(look: Look) -> Decode:
        kept = max(1, int(look.sample.shape[1] * share))

        def decode(rows: Singles, numbers: Numbers) -> Singles:
            out = rows.copy()
            out[:, kept:] = 0
            return out

        return decode

    return fit


def _fixed(function: Callable[[Singles], Singles]) -> Callable[[Look], Decode]:
    return lambda look: lambda rows, numbers: function(rows)


def _codec(make: Callable[[Look], Any]) -> Callable[[Look], Decode]:
    def fit(look: Look) -> Decode:
        codec = make(look)
        return lambda rows, numbers: through(codec, rows)

    return fit


TRIALS = {
    trial.name: trial
    for trial in (
        Trial("float16", "float16", lambda d: 2 * d, _codec(lambda look: Float16()), Target(".f16bin", "float16")),
        Trial(
            "bfloat16", "bfloat16", lambda d: 2 * d, _codec(lambda look: BFloat16()), Target(".safetensors", "bfloat16")
        ),
        Trial(
            "int8-file",
            "int8, one range a file",
            lambda d: d,
            _codec(lambda look: AffineUint8.fit([np.array([[look.low, look.high]], np.float32)])),
        ),
        Trial(
            "int8-chunk",
            f"int8, one range for {CHUNK_ROWS:,} rows",
            lambda d: d + 8 / CHUNK_ROWS,
            fit_chunks,
            Target(".cvc", "int8", finite=True),
        ),
        Trial("int8-row", "int8, one scale a row", lambda d: d + 4, _codec(lambda look: ScaledInt8())),
        Trial("int4", "int4, one scale a row", lambda d: -(-d // 2) + 4, _fixed(four_bits)),
        Trial("bit", "1 bit, one scale a row", lambda d: -(-d // 8) + 4, _fixed(one_bit)),
        Trial("pq", f"product quantisation, {PQ_DIMS} dimensions a byte", lambda d: -(-d // PQ_DIMS), fit_product),
        Trial("half-dims", "first half of the dimensions", lambda d: 4 * max(1, d // 2), truncated(0.5)),
        Trial("quarter-dims", "first quarter of the dimensions", lambda d: 4 * max(1, d // 4), truncated(1 / 4)),
    )
}


def choose_trials(names: list[str] | tuple[str, ...] | None) -> list[Trial]:
    """The named trials, or all; `int8` stands for its three kinds."""
    if names is None:
        return list(TRIALS.values())
    found: list[Trial] = []
    for name in names:
        many = [t for n, t in TRIALS.items() if n == name or (name == "int8" and n.startswith("int8-"))]
        if not many:
            raise InputError(f"encoding {name!r} is not on trial; there are {', '.join(TRIALS)}{near(name, TRIALS)}")
        found.extend(t for t in many if t not in found)
    return found
