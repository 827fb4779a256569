"""The wire format of ONNX, written by hand: read back by the onnx package as what was meant."""

from __future__ import annotations

import numpy as np
import pytest

from polyvec.model.engines.onnx_graph import BOOL, FLOAT, INT64, MICROSOFT, Graph

onnx = pytest.importorskip("onnx")


def parsed(graph: Graph):
    return onnx.load_model_from_string(graph.serialize())


def test_nodes_attributes_and_domains_come_back() -> None:
    graph = Graph()
    made = graph.add(
        "Odd", ["a", "b"], "out", domain=MICROSOFT, attributes={"f": 0.5, "i": -3, "s": "gelu", "ints": [1, -1, 300]}
    )
    [node] = parsed(graph).graph.node
    assert made == "out" and (node.op_type, node.domain) == ("Odd", MICROSOFT)
    assert list(node.input) == ["a", "b"] and list(node.output) == ["out"]
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert found == {"f": 0.5, "i": -3, "s": b"gelu", "ints": [1, -1, 300]}


def test_constants_are_inside_and_weights_outside() -> None:
    graph = Graph()
    graph.constant("sizes", np.array([-1, 384], np.int64))
    graph.constant("scale", np.array([[0.25]], np.float32))
    graph.weight("w", (300, 4))
    sizes, scale, weight = parsed(graph).graph.initializer
    assert onnx.numpy_helper.to_array(sizes).tolist() == [-1, 384]
    assert onnx.numpy_helper.to_array(scale).tolist() == [[0.25]]
    assert list(weight.dims) == [300, 4] and weight.data_location == onnx.TensorProto.EXTERNAL and not weight.raw_data


def test_inputs_and_outputs_keep_kind_and_shape() -> None:
    graph = Graph()
    graph.input("ids", INT64, ["texts", 7])
    graph.input("flag", BOOL, [])
    graph.output("out", FLOAT, ["texts"])
    ids, flag = parsed(graph).graph.input
    dims = ids.type.tensor_type.shape.dim
    assert ids.type.tensor_type.elem_type == onnx.TensorProto.INT64
    assert (dims[0].dim_param, dims[1].dim_value) == ("texts", 7)
    assert flag.type.tensor_type.elem_type == onnx.TensorProto.BOOL and not flag.type.tensor_type.shape.dim


def test_a_choice_passes_on_the_output_of_the_branch_it_takes() -> None:
    runtime = pytest.importorskip("onnxruntime")
    graph = Graph()
    graph.input("yes", BOOL, [])
    graph.input("x", FLOAT, [2])
    branches = []
    for op, name in (("Neg", "negated"), ("Abs", "absolute")):
        branch = Graph()
        branch.add(op, ["x"], name)
        branch.output(name, FLOAT, [2])
        branches.append(branch)
    graph.choose("yes", *branches, "out")
    graph.output("out", FLOAT, [2])
    onnx.checker.check_model(parsed(graph))
    session = runtime.InferenceSession(graph.serialize(), providers=["CPUExecutionProvider"])
    for yes, wanted in ((True, [-1, 2]), (False, [1, 2])):
        assert session.run(["out"], {"yes": np.array(yes), "x": np.float32([1, -2])})[0].tolist() == wanted
