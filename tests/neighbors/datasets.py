"""Rows and queries that are hard on an approximate scan: near-ties, duplicates, extreme lengths, odd values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Maker = Callable[[np.random.Generator, int, int, int], tuple[NDArray[Any], NDArray[Any]]]
CASES: dict[str, Maker] = {}


def case(make: Maker) -> Maker:
    CASES[make.__name__] = make
    return make


def normal(rng: np.random.Generator, *shape: int) -> NDArray[Any]:
    return rng.standard_normal(shape).astype(np.float32)


@case
def gaussian(rng, n, d, q):
    return normal(rng, n, d), normal(rng, q, d)


@case
def unit_rows(rng, n, d, q):
    x, y = normal(rng, n, d), normal(rng, q, d)
    return x / np.linalg.norm(x, axis=1, keepdims=True), y / np.linalg.norm(y, axis=1, keepdims=True)


@case
def near_ties(rng, n, d, q):
    return (normal(rng, 1, d) + 1e-6 * normal(rng, n, d)).astype(np.float32), normal(rng, q, d)


@case
def duplicates(rng, n, d, q):
    x = normal(rng, max(1, n // 7), d)
    return x[rng.integers(0, len(x), n)], np.concatenate([x[:1], normal(rng, q - 1, d)])


@case
def one_row_everywhere(rng, n, d, q):
    return np.repeat(normal(rng, 1, d), n, axis=0), normal(rng, q, d)


@case
def all_lengths(rng, n, d, q):
    return (normal(rng, n, d) * 10.0 ** rng.uniform(-30, 30, (n, 1))).astype(np.float32), normal(rng, q, d)


@case
def largest_floats(rng, n, d, q):
    x = np.where(rng.random((n, d)) < 0.5, -3.4e38, 3.4e38).astype(np.float32)
    x[::3] = normal(rng, len(x[::3]), d)
    return x, np.where(rng.random((q, d)) < 0.5, -3.4e38, 3.4e38).astype(np.float32)


@case
def subnormals(rng, n, d, q):
    return (normal(rng, n, d) * 1e-40).astype(np.float32), (normal(rng, q, d) * 1e-42).astype(np.float32)


@case
def zero_rows(rng, n, d, q):
    x = normal(rng, n, d)
    x[rng.random(n) < 0.5] = 0
    return x, -np.abs(normal(rng, q, d))


@case
def all_zero(rng, n, d, q):
    return np.zeros((n, d), np.float32), normal(rng, q, d)


@case
def constant_dimensions(rng, n, d, q):
    shift = rng.uniform(-1e4, 1e4, d).astype(np.float32)
    return normal(rng, n, d) * 0.1 + shift, normal(rng, q, d) * 0.1 + shift


@case
def centred_base_far_queries(rng, n, d, q):
    return normal(rng, n, d) + np.float32(50), normal(rng, q, d) * np.float32(1e-5)


@case
def one_loud_dimension(rng, n, d, q):
    x, y = normal(rng, n, d), normal(rng, q, d)
    x[:, 0] *= 1e6
    y[:, 0] *= 1e-6
    return x, y


@case
def cauchy(rng, n, d, q):
    return rng.standard_cauchy((n, d)).astype(np.float32), rng.standard_cauchy((q, d)).astype(np.float32)


@case
def small_integers(rng, n, d, q):
    return rng.integers(-3, 4, (n, d)).astype(np.float32), rng.integers(-3, 4, (q, d)).astype(np.float32)


@case
def not_finite(rng, n, d, q):
    x = normal(rng, n, d)
    x[rng.random((n, d)) < 0.3 / d] = np.nan
    x[rng.random((n, d)) < 0.3 / d] = np.inf
    x[rng.random((n, d)) < 0.3 / d] = -np.inf
    return x, normal(rng, q, d)


@case
def int8_rows(rng, n, d, q):
    return rng.integers(-128, 128, (n, d)).astype(np.int8), rng.integers(-128, 128, (q, d)).astype(np.int8)


@case
def uint8_rows(rng, n, d, q):
    return rng.integers(0, 256, (n, d)).astype(np.uint8), rng.integers(0, 256, (q, d)).astype(np.uint8)


@case
def int8_rows_float_queries(rng, n, d, q):
    return rng.integers(-5, 5, (n, d)).astype(np.int8), normal(rng, q, d)


@case
def wide_floats(rng, n, d, q):
    return rng.standard_normal((n, d)) * (1 + 1e-12), rng.standard_normal((q, d))


@case
def beyond_float32(rng, n, d, q):
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-60, 60, (n, 1)), rng.standard_normal((q, d))


@case
def beyond_float64(rng, n, d, q):
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(100, 200, (n, 1)), rng.standard_normal((q, d))


@case
def half_floats(rng, n, d, q):
    return rng.standard_normal((n, d)).astype(np.float16), rng.standard_normal((q, d)).astype(np.float16)


@case
def query_along_center(rng, n, d, q):
    shift = normal(rng, 1, d) * 3
    return normal(rng, n, d) * np.float32(0.1) + shift, np.repeat(shift, q, axis=0) * np.float32(7)
