"""The encoder as an ONNX graph, written straight from its sizes; the weights stay outside, by name.

Only the wire format of six message types is needed, so the graph is encoded here: importing the `onnx`
package to do it costs more (0.3 s) than everything else of a cold start together.

    message  fields used
    Model    ir_version 1, producer_name 2, graph 7, opset_import 8
    Graph    node 1, name 2, initializer 5, input 11, output 12
    Node     input 1, output 2, name 3, op_type 4, attribute 5, domain 7
    Attribute name 1, f 2, i 3, s 4, g 6, ints 8, type 20
    Tensor   dims 1, data_type 2, name 8, raw_data 9, external_data 13, data_location 14
    Value    name 1, type 2 {tensor 1 {element 1, shape 2 {dimension 1 {value 1, parameter 2}}}}
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

FLOAT, INT32, INT64, BOOL = 1, 6, 7, 9
_OPSET, _IR_VERSION = 20, 9
MICROSOFT = "com.microsoft"  # the runtime's own domain: fused attention, skip-normalisation

Attribute = float | int | str | Sequence[int]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _attribute(name: str, value: Attribute) -> bytes:
    head = _text(1, name)
    if isinstance(value, float):
        return head + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return head + _number(3, value) + _number(20, 2)
    if isinstance(value, str):
        return head + _text(4, value) + _number(20, 3)
    return head + b"".join(_number(8, item) for item in value) + _number(20, 7)


class Graph:
    """An ONNX graph under construction: `add` appends a node and returns its output's name."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._initializers: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        output: str,
        *,
        domain: str = "",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        node = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(3, output) + _text(4, op)
        node += b"".join(_bytes(5, _attribute(key, value)) for key, value in (attributes or {}).items())
        self._nodes.append(_bytes(1, node + (_text(7, domain) if domain else b"")))
        return output

    def choose(self, condition: str, yes: Graph, no: Graph, output: str) -> str:
        """Append a node that runs one of two graphs, whose single outputs it passes on; both see this graph's names."""
        node = _text(1, condition) + _text(2, output) + _text(3, output) + _text(4, "If")
        for name, branch in (("then_branch", yes), ("else_branch", no)):
            node += _bytes(5, _text(1, name) + _bytes(6, branch.body(name)) + _number(20, 5))
        self._nodes.append(_bytes(1, node))
        return output

    def constant(self, name: str, value: npt.NDArray[np.int64] | npt.NDArray[np.float32]) -> str:
        kind = INT64 if value.dtype == np.int64 else FLOAT
        dims = b"".join(_number(1, size) for size in value.shape)
        self._initializers.append(_bytes(5, dims + _number(2, kind) + _text(8, name) + _bytes(9, value.tobytes())))
        return name

    def weight(self, name: str, shape: Sequence[int]) -> str:
        """Declare a float32 tensor whose data the session is given separately."""
        dims = b"".join(_number(1, size) for size in shape)
        place = _bytes(13, _text(1, "location") + _text(2, "given-in-memory"))
        self._initializers.append(_bytes(5, dims + _number(2, FLOAT) + _text(8, name) + place + _number(14, 1)))
        return name

    def input(self, name: str, kind: int, shape: Sequence[str | int]) -> str:
        self._inputs.append(_bytes(11, _value(name, kind, shape)))
        return name

    def output(self, name: str, kind: int, shape: Sequence[str | int]) -> None:
        self._outputs.append(_bytes(12, _value(name, kind, shape)))

    def body(self, name: str) -> bytes:
        """The graph's message."""
        return b"".join([*self._nodes, _text(2, name), *self._initializers, *self._inputs, *self._outputs])

    def serialize(self) -> bytes:
        """The graph as a model."""
        opsets = _bytes(8, _text(1, "") + _number(2, _OPSET)) + _bytes(8, _text(1, MICROSOFT) + _number(2, 1))
        return _number(1, _IR_VERSION) + _text(2, "polyvec") + _bytes(7, self.body("encoder")) + opsets


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    dims = b"".join(_bytes(1, _text(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, dims)))
