"""The encoder on OpenVINO: bfloat16 where the CPU multiplies it natively, else float32."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import MissingExtra
from polyvec.model.architecture import POSITIONS, TYPES, WORDS
from polyvec.model.loading import Model
from polyvec.model.pooling import pool

LONG, TILE = 96, 16  # tokens


class OpenvinoEngine:
    """One stream and one request a worker: batches run beside each other."""

    name = "openvino"
    whole: int | None = None
    budget = 2048  # tokens: matrix units want tall matrices more than the cache wants short ones

    def __init__(self, model: Model, threads: int) -> None:
        try:
            import openvino
        except ImportError:
            raise MissingExtra("openvino", extra="fast-embed", purpose="fast text embeddings") from None
        self.workers = threads
        self._pooling = model.architecture.pooling
        self._positions = model.architecture.max_position_emb
        core = openvino.Core()
        able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self.precision = "bf16" if "BF16" in able else "f32"
        settings = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "NUM_STREAMS": str(threads),
            "INFERENCE_NUM_THREADS": str(threads),
        }
        self._compiled: Any = core.compile_model(build_model(model), "CPU", settings)
        self._local = threading.local()

    def pool(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        request = getattr(self._local, "request", None)
        if request is None:
            request = self._local.request = self._compiled.create_infer_request()
        ids = even_out(ids, self._positions)
        mask = np.where(np.arange(ids.shape[1]) < lengths[:, None], np.float32(0), np.float32(-1e30))
        request.infer([ids.astype(np.int32), mask[:, None, None, :]], share_inputs=True)
        # Pooled here and not in the graph: in bfloat16 the mean would lose more than all the layers do.
        return pool(request.get_output_tensor(0).data, lengths, self._pooling)

    def close(self) -> None:
        self._compiled = None
        self._local = threading.local()


def even_out(ids: NDArray[np.int64], positions: int) -> NDArray[np.int64]:
    """Long texts padded to a multiple of 16 tokens: a tenth faster, since matrix units take 16 at a time."""
    tokens = ids.shape[1]
    more = min(-tokens % TILE, positions - tokens) if tokens >= LONG else 0
    return np.pad(ids, ((0, 0), (0, more))) if more else ids


def build_model(model: Model) -> Any:
    """The encoder as an OpenVINO model over the weights in memory."""
    import openvino
    from openvino import opset13 as op

    sizes, parameters = model.architecture, model.parameters
    width = sizes.hidden_size

    def whole(*values: int) -> Any:
        return op.constant(np.array(values, np.int32))

    def weight(name: str) -> Any:
        value = np.ascontiguousarray(parameters[name])
        return op.constant(value, shared_memory=value.flags.writeable)  # a mapped file is read-only: copied

    def norm(x: Any, name: str) -> Any:
        centred = op.mvn(x, whole(-1), True, sizes.layer_norm_eps, "inside_sqrt")
        return op.add(op.multiply(centred, weight(f"{name}.weight")), weight(f"{name}.bias"))

    def linear(x: Any, name: str) -> Any:
        return op.add(op.matmul(x, weight(f"{name}.weight"), False, True), weight(f"{name}.bias"))

    ids = op.parameter([-1, -1], openvino.Type.i32, name="ids")
    mask = op.parameter([-1, 1, 1, -1], openvino.Type.f32, name="mask")
    axis = op.constant(np.int32(0))
    tokens = op.gather(op.shape_of(ids, "i32"), whole(1), axis)
    places = op.constant(np.ascontiguousarray(parameters[POSITIONS] + parameters[TYPES][0]))
    x = op.add(op.gather(weight(WORDS), ids, axis), op.slice(places, whole(0), tokens, whole(1), whole(0)))
    x = norm(x, "embeddings.LayerNorm")
    split, merge, turn = whole(0, 0, sizes.num_attention_heads, sizes.head_dim), whole(0, 0, width), whole(0, 2, 1, 3)
    for number in range(sizes.num_layers):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            op.transpose(op.reshape(linear(x, f"{layer}.attention.self.{part}"), split, True), turn)
            for part in ("query", "key", "value")
        )
        context = op.scaled_dot_product_attention(query, key, value, mask)
        context = op.reshape(op.transpose(context, turn), merge, True)
        x = norm(op.add(linear(context, f"{layer}.attention.output.dense"), x), f"{layer}.attention.output.LayerNorm")
        inner = linear(x, f"{layer}.intermediate.dense")
        if sizes.hidden_act == "relu":
            inner = op.relu(inner)
        else:
            inner = op.gelu(inner, "erf" if sizes.hidden_act == "gelu" else "tanh")
        x = norm(op.add(linear(inner, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")
    return openvino.Model([op.result(x)], [ids, mask], "encoder")
