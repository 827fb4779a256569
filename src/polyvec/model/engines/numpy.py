"""The encoder in NumPy: the oracle. Written to be read; the other engines must agree with it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyvec.model.architecture import POSITIONS, TYPES, WORDS
from polyvec.model.loading import Model
from polyvec.model.pooling import pool

Floats = NDArray[np.float32]


class NumpyEngine:
    """One batch at a time; the matrix products use whatever threads NumPy's BLAS has."""

    name = "numpy"
    workers = 1
    budget = 1024
    whole: int | None = None

    def __init__(self, model: Model) -> None:
        self._model = model

    def pool(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Floats:
        return pool(self.encode(ids, lengths), lengths, self._model.architecture.pooling)

    def close(self) -> None:
        """Nothing is held."""

    def encode(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Floats:
        """The last layer's token vectors, [texts, tokens, width]."""
        weights, sizes = self._model.parameters, self._model.architecture
        texts, tokens = ids.shape
        x = weights[WORDS][ids] + weights[POSITIONS][:tokens] + weights[TYPES][0]
        x = self._layer_norm(x, "embeddings.LayerNorm").reshape(-1, sizes.hidden_size)
        # Padding must draw no attention: its scores become so low that their softmax is exactly zero.
        mask = np.where(np.arange(tokens) < lengths[:, None], np.float32(0), np.float32(-1e30))[:, None, None, :]
        for number in range(sizes.num_layers):
            layer = f"encoder.layer.{number}"
            query, key, value = (
                self._linear(x, f"{layer}.attention.self.{part}")
                .reshape(texts, tokens, sizes.num_attention_heads, sizes.head_dim)
                .transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            scores = np.matmul(query, key.transpose(0, 1, 3, 2)) * np.float32(1 / math.sqrt(sizes.head_dim)) + mask
            context = np.matmul(_softmax(scores), value).transpose(0, 2, 1, 3).reshape(x.shape)
            attended = self._linear(context, f"{layer}.attention.output.dense")
            x = self._layer_norm(attended + x, f"{layer}.attention.output.LayerNorm")
            inner = activate(self._linear(x, f"{layer}.intermediate.dense"), sizes.hidden_act)
            x = self._layer_norm(self._linear(inner, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
        return np.asarray(x.reshape(texts, tokens, sizes.hidden_size), np.float32)

    def _linear(self, x: Floats, name: str) -> Floats:
        weights = self._model.parameters
        return np.asarray(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"], np.float32)

    def _layer_norm(self, x: Floats, name: str) -> Floats:
        weights = self._model.parameters
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(centred * centred, axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + np.float32(self._model.architecture.layer_norm_eps))
        return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"], np.float32)


def _softmax(scores: Floats) -> Floats:
    exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(exponents / exponents.sum(axis=-1, keepdims=True), np.float32)


def activate(x: Floats, kind: str) -> Floats:
    """The feed-forward activation: gelu (by erf), its tanh approximation, or relu."""
    if kind == "relu":
        return np.maximum(x, 0)
    if kind == "gelu":
        return np.asarray(0.5 * x * (1.0 + _erf(x * np.float32(1 / math.sqrt(2)))), np.float32)
    cubic = x + np.float32(0.044715) * x * x * x
    return np.asarray(0.5 * x * (1.0 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * cubic)), np.float32)


def _erf(x: Floats) -> Floats:
    """erf in float64 arithmetic, rounded once: W. J. Cody's rational approximations."""
    wide = x.astype(np.float64)
    size = np.abs(wide)
    square = size * size
    inner = (
        wide
        * (
            (
                ((1.85777706184603153e-1 * square + 3.16112374387056560e0) * square + 1.13864154151050156e2) * square
                + 3.77485237685302021e2
            )
            * square
            + 3.20937758913846947e3
        )
        / (
            (((square + 2.36012909523441209e1) * square + 2.44024637934444173e2) * square + 1.28261652607737228e3)
            * square
            + 2.84423683343917062e3
        )
    )
    top, bottom = np.full_like(wide, 2.15311535474403846e-8), np.ones_like(wide)
    for a, b in zip(
        (
            5.64188496988670089e-1,
            8.88314979438837594e0,
            6.61191906371416295e1,
            2.98635138197400131e2,
            8.81952221241769090e2,
            1.71204761263407058e3,
            2.05107837782607147e3,
            1.23033935479799725e3,
        ),
        (
            1.57449261107098347e1,
            1.17693950891312499e2,
            5.37181101862009858e2,
            1.62138957456669019e3,
            3.29079923573345963e3,
            4.36261909014324716e3,
            3.43936767414372164e3,
            1.23033935480374942e3,
        ),
    ):
        top = top * size + a
        bottom = bottom * size + b
    # Beyond 4 erfc is below 1.6e-8, less than half an ulp of 1 in float32.
    outer = np.where(size > 4.0, 1.0, 1.0 - np.exp(-square) * top / bottom)
    return np.asarray(np.where(size <= 0.46875, inner, np.copysign(outer, wide)), np.float32)
