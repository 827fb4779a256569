"""The encoder on onnxruntime: a graph written from the sizes, the weights handed over without a copy.

One thread a call and as many calls at once as there are threads: batches are independent, so nothing waits for the
slower half of a split matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyvec.core.errors import MissingExtra
from polyvec.model.architecture import POSITIONS, TYPES, WORDS, Architecture
from polyvec.model.engines.onnx_graph import BOOL, FLOAT, INT32, INT64, MICROSOFT, Graph
from polyvec.model.loading import Model
from polyvec.model.pooling import weigh_tokens

Weights = dict[str, NDArray[np.float32]]


class OnnxruntimeEngine:
    """A session with one thread a call."""

    name = "onnxruntime"
    whole: int | None = 96  # one such text is as fast a token as many, and needs neither padding nor a mask
    budget = 256  # tokens: all activations of a layer, 256 x 1536 floats, stay within the second-level cache

    def __init__(self, model: Model, threads: int) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra("onnxruntime", extra="embed", purpose="text embeddings") from None
        self.workers = threads
        self._pooling = model.architecture.pooling
        graph, self._weights = build_graph(model.architecture, model.parameters)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        names = list(self._weights)
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(self._weights[name]) for name in names]
        options.add_external_initializers(names, values)
        self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def pool(self, ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.float32]:
        padded = np.array(bool((lengths != ids.shape[1]).any()))
        feed: dict[str, Any] = {"ids": ids, "lengths": lengths, "padded": padded}
        if self._pooling == "max":
            outside = np.arange(ids.shape[1]) >= lengths[:, None]
            feed["weights"] = np.where(outside, np.float32(-1e30), np.float32(0))[:, :, None]
        else:
            feed["weights"] = weigh_tokens(lengths, ids.shape[1], self._pooling)[:, None, :]
        pooled: NDArray[np.float32] = self._session.run(["pooled"], feed)[0]
        return pooled

    def close(self) -> None:
        self._session = None
        self._weights = {}


def build_graph(sizes: Architecture, parameters: Weights) -> tuple[bytes, Weights]:
    """The encoder as an ONNX model, and the weights it refers to by name."""
    graph = Graph()
    given: Weights = {}

    def weight(name: str, value: NDArray[np.float32] | None = None) -> str:
        if name not in given:
            given[name] = np.ascontiguousarray(parameters[name] if value is None else value)
            graph.weight(name, given[name].shape)
        return name

    def norm(x: str, name: str, out: str) -> str:
        attributes = {"axis": -1, "epsilon": sizes.layer_norm_eps}
        return graph.add(
            "LayerNormalization", [x, weight(f"{name}.weight"), weight(f"{name}.bias")], out, attributes=attributes
        )

    def linear(x: str, name: str, out: str) -> str:
        return graph.add("Gemm", [x, weight(f"{name}.weight"), weight(f"{name}.bias")], out, attributes={"transB": 1})

    graph.input("ids", INT64, ["texts", "tokens"])
    graph.input("lengths", INT32, ["texts"])
    graph.input("padded", BOOL, [])
    graph.input("weights", FLOAT, ["texts", "tokens", 1] if sizes.pooling == "max" else ["texts", 1, "tokens"])
    for name, values in (
        ("zero", [0]),
        ("one", [1]),
        ("two", [2]),
        ("width", [sizes.hidden_size]),
        ("flat", [-1, sizes.hidden_size]),
    ):
        graph.constant(name, np.array(values, np.int64))
    shape = graph.add("Shape", ["ids"], "shape")
    deep = graph.add("Concat", [shape, "width"], "deep", attributes={"axis": 0})
    tokens = graph.add("Slice", [shape, "one", "two"], "tokens")
    # Every text is of segment 0, so its vector is added to the positions once and for all.
    places = weight("positions", parameters[POSITIONS] + parameters[TYPES][0])
    words = graph.add("Gather", [weight(WORDS), "ids"], "words")
    x = graph.add("Add", [words, graph.add("Slice", [places, "zero", tokens, "zero"], "places")], "embedded")
    x = graph.add("Reshape", [norm(x, "embeddings.LayerNorm", "normed"), "flat"], "x")
    for number in range(sizes.num_layers):
        x = _add_layer(graph, sizes, f"encoder.layer.{number}", x, deep, norm, linear)
    hidden = graph.add("Reshape", [x, deep], "hidden")
    if sizes.pooling == "max":
        masked = graph.add("Add", [hidden, "weights"], "masked")
        graph.add("ReduceMax", [masked, "one"], "pooled", attributes={"keepdims": 0})
    else:
        graph.add("Squeeze", [graph.add("MatMul", ["weights", hidden], "weighed"), "one"], "pooled")
    graph.output("pooled", FLOAT, ["texts", sizes.hidden_size])
    return graph.serialize(), given


def _add_layer(graph: Graph, sizes: Architecture, layer: str, x: str, deep: str, norm: Any, linear: Any) -> str:
    parts = [
        graph.add(
            "Reshape", [linear(x, f"{layer}.attention.self.{part}", f"{layer}.{part}"), deep], f"{layer}.{part}.deep"
        )
        for part in ("query", "key", "value")
    ]
    context = _add_attention(graph, sizes, parts, f"{layer}.context")
    attended = linear(
        graph.add("Reshape", [context, "flat"], f"{layer}.flat"), f"{layer}.attention.output.dense", f"{layer}.attended"
    )
    x = norm(graph.add("Add", [attended, x], f"{layer}.sum"), f"{layer}.attention.output.LayerNorm", f"{layer}.middle")
    inner = linear(x, f"{layer}.intermediate.dense", f"{layer}.inner")
    if sizes.hidden_act == "relu":
        inner = graph.add("Relu", [inner], f"{layer}.active")
    else:
        kind = {"approximate": "none" if sizes.hidden_act == "gelu" else "tanh"}
        inner = graph.add("Gelu", [inner], f"{layer}.active", attributes=kind)
    outer = linear(inner, f"{layer}.output.dense", f"{layer}.outer")
    return str(norm(graph.add("Add", [outer, x], f"{layer}.sum2"), f"{layer}.output.LayerNorm", f"{layer}.out"))


def _add_attention(graph: Graph, sizes: Architecture, parts: list[str], out: str) -> str:
    """Attention with a mask where texts differ in length; without one, where they do not, it is a tenth faster."""
    branches = []
    for mask in ("lengths", ""):
        branch = Graph()
        inputs = [*parts, "", mask] if mask else parts
        name = f"{out}.{mask or 'whole'}"
        branch.add(
            "MultiHeadAttention", inputs, name, domain=MICROSOFT, attributes={"num_heads": sizes.num_attention_heads}
        )
        branch.output(name, FLOAT, ["texts", "tokens", sizes.hidden_size])
        branches.append(branch)
    return graph.choose("padded", branches[0], branches[1], out)
