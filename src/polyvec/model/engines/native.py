"""The encoder on the CPU's own matrix units (AMX): float32 values, each product three of bfloat16 halves.

Texts lie one after the other, so nothing is padded. One thread a call and as many calls at once as there are threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import InputError
from polyvec.kernels.paths import cpu_path, native
from polyvec.model.architecture import POSITIONS, TYPES, WORDS, Architecture
from polyvec.model.loading import Model
from polyvec.model.pooling import pool

Floats = NDArray[np.float32]
ACTIVATIONS = {"gelu": 0, "gelu_new": 1, "gelu_pytorch_tanh": 1, "relu": 2}
STEP = 32  # the matrix units multiply blocks of this many values


def refuse(sizes: Architecture) -> str | None:
    """Why this engine cannot run a model here; None where it can."""
    module: Any = native()
    if module is None:
        return "the compiled module is missing"
    if cpu_path() != "avx512":
        return f"POLYVEC_CPU or the CPU allows no more than {cpu_path()}"
    if not module.encoder_available():
        return "this CPU does not multiply bfloat16 matrices (AMX), or the system does not allow it"
    if sizes.head_dim % STEP or sizes.intermediate_size % STEP:
        return f"heads of {sizes.head_dim} and an inner width of {sizes.intermediate_size} are no multiples of {STEP}"
    return None


class NativeEngine:
    """polyvec's own layers, compiled."""

    name = "native"
    whole: int | None = None
    budget = 512  # tokens: enough that the weights, which come from far, are used often

    def __init__(self, model: Model, threads: int) -> None:
        sizes, weights = model.architecture, model.parameters
        reason = refuse(sizes)
        if reason is not None:
            raise InputError(f"engine 'native' cannot run here: {reason}; choose engine='auto'")
        self.workers = threads
        self._pooling = sizes.pooling
        self._words = weights[WORDS]
        self._places = np.asarray(weights[POSITIONS] + weights[TYPES][0], np.float32)
        module: Any = native()

        def plain(name: str) -> Floats:
            return np.ascontiguousarray(weights[name], np.float32)

        self._encoder: Any = module.Encoder(
            sizes.hidden_size,
            sizes.num_attention_heads,
            sizes.intermediate_size,
            sizes.layer_norm_eps,
            ACTIVATIONS[sizes.hidden_act],
            plain("embeddings.LayerNorm.weight"),
            plain("embeddings.LayerNorm.bias"),
        )
        for number in range(sizes.num_layers):
            layer = f"encoder.layer.{number}"
            parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
            arrays = [np.concatenate([plain(f"{part}.{kind}") for part in parts]) for kind in ("weight", "bias")]
            for name in (
                "attention.output.dense",
                "attention.output.LayerNorm",
                "intermediate.dense",
                "output.dense",
                "output.LayerNorm",
            ):
                arrays += [plain(f"{layer}.{name}.weight"), plain(f"{layer}.{name}.bias")]
            self._encoder.add_layer(arrays)

    def encode(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> tuple[Floats, NDArray[np.int64]]:
        """The last layer's token vectors, text after text, and where each text starts."""
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        rows = self._words[ids[inside]] + self._places[np.nonzero(inside)[1]]
        self._encoder.run(rows, starts)
        return rows, starts

    def pool(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Floats:
        rows, starts = self.encode(ids, lengths)
        if self._pooling == "mean" and lengths.min(initial=1) > 0:
            return np.asarray(np.add.reduceat(rows, starts[:-1]) / lengths[:, None], np.float32)
        pooled = np.empty((len(ids), rows.shape[1]), np.float32)
        nothing = np.zeros((1, rows.shape[1]), np.float32)
        for text in range(len(ids)):
            own = rows[starts[text] : starts[text + 1]]
            pooled[text] = pool((own if len(own) else nothing)[None], lengths[text : text + 1], self._pooling)[0]
        return pooled

    def close(self) -> None:
        self._encoder = None
