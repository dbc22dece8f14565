"""ONNX nodes over the weights of a container: small, and the same results."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from ep_nnapi.epcontext.alternatives import plain_crossing
from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.epcontext.onnx_program import INSIDE, onnx_program
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border
from tests.onnx_graph import parsed

WEIGHT = np.random.default_rng(3).normal(size=(8, 5, 3, 3)).astype(np.float32)


def convolution() -> tuple[onnx.ModelProto, Border]:
    """A convolution whose weight has other names than the graph's ends."""
    text = """(float[1,5,6,6] x) => (float[1,8,4,4] y) { long_name = Conv (x, weight)
        y = Tanh (long_name) }"""
    model = parsed(text)
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "weight"))
    ends = [("x", (1, 5, 6, 6)), ("y", (1, 8, 4, 4))]
    x, y = (plain_crossing(name, DType.FLOAT, shape, 0) for name, shape in ends)
    return model, Border((x,), (y,))


def as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("perm", [None, (0, 2, 3, 1), (1, 2, 3, 0)])
def test_a_constant_in_another_order_of_axes_is_read_from_there(perm: tuple[int, ...] | None):
    model, border = convolution()
    there = [as_bytes(WEIGHT[::-1]), as_bytes(WEIGHT.transpose(perm or (0, 1, 2, 3)))]
    made = onnx_program("cpu", model, border, there)
    assert made.linked is not None
    (held,) = made.linked.constants
    assert np.array_equal(held, there[1])
    (read,) = (a for a in unpack(pack(made).with_embedded_weights(), None, 1).alternatives)
    assert read.linked is not None
    proto = onnx.load_model_from_string(bytes(read.data))
    assert ("Transpose" in {n.op_type for n in proto.graph.node}) is (perm is not None)
    assert b"long_name" not in bytes(read.data)
    assert computed(made) == result(model)


MATRIX = np.random.default_rng(5).normal(size=(6, 40)).astype(np.float32)
OTHERWISE = {
    "behind a Flatten": [MATRIX.reshape(6, 10, 4).transpose(0, 2, 1)],
    "behind a Flatten, and turned": [MATRIX.reshape(6, 5, 8).transpose(1, 2, 0)],
    "in two": [MATRIX[2:], MATRIX[:2]],
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_a_matrix_is_made_of_what_is_there(case: str):
    model = parsed("(float[1,6] x) => (float[1,40] y) { y = MatMul (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(MATRIX, "w"))
    ends = [("x", (1, 6)), ("y", (1, 40))]
    x, y = (plain_crossing(name, DType.FLOAT, shape, 0) for name, shape in ends)
    there = [as_bytes(array) for array in OTHERWISE[case]]
    made = onnx_program("cpu", model, Border((x,), (y,)), there)
    assert made.linked is not None
    assert {id(a) for a in made.linked.constants} == {id(a) for a in there}
    feeds = {"x": np.linspace(-1, 1, 6, dtype=np.float32)[None]}
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    content = unpack(pack(made).with_embedded_weights(), None, 1)
    options = onnxruntime.SessionOptions()
    weights = bytes(content.weights)
    options.add_external_initializers_from_files_in_memory(["weights"], [weights], [len(weights)])
    session = onnxruntime.InferenceSession(bytes(content.alternatives[0].data), options)
    assert np.array_equal(session.run(None, feeds)[0], plain.run(None, feeds)[0])


def result(model: onnx.ModelProto) -> bytes:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.linspace(-1, 1, 180, dtype=np.float32).reshape(1, 5, 6, 6)
    return np.asarray(session.run(None, {"x": x})[0]).tobytes()


def computed(made) -> bytes:
    """The result of the only alternative of a container."""
    content = unpack(pack(made).with_embedded_weights(), None, 1)
    (read,) = content.alternatives
    options = onnxruntime.SessionOptions()
    weights = bytes(content.weights)
    options.add_external_initializers_from_files_in_memory(["weights"], [weights], [len(weights)])
    session = onnxruntime.InferenceSession(bytes(read.data), options)
    x = np.linspace(-1, 1, 180, dtype=np.float32).reshape(1, 5, 6, 6)
    return np.asarray(session.run(None, {"x": x})[0]).tobytes()


@pytest.mark.parametrize("size", [INSIDE // 4, INSIDE // 4 + 1])
def test_small_constants_are_in_the_model(size: int):
    model = parsed(f"(float[{size}] x) => (float[{size}] y) {{ y = Add (x, w) }}")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.float32), "w"))
    x, y = (plain_crossing(name, DType.FLOAT, (size,), 0) for name in "xy")
    made = onnx_program("cpu", model, Border((x,), (y,)))
    assert made.linked is not None
    assert len(made.linked.constants) == (size * 4 > INSIDE)


def test_names_that_inner_graphs_read_stay():
    inner = helper.make_graph(
        [helper.make_node("Add", ["outer", "x"], ["inner"])],
        "then",
        [],
        [helper.make_tensor_value_info("inner", 1, [2])],
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["outer"]),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
    ]
    infos = [helper.make_tensor_value_info(n, k, s) for n, k, s in (("c", 9, []), ("x", 1, [2]))]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", 1, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    c, x = plain_crossing("c", DType.BOOL, (), 0), plain_crossing("x", DType.FLOAT, (2,), 1)
    made = onnx_program("cpu", model, Border((c, x), (plain_crossing("y", DType.FLOAT, (2,), 0),)))
    (read,) = unpack(pack(made).with_embedded_weights(), None, 1).alternatives
    feeds = {"c": np.array(True), "x": np.array([1, 2], np.float32)}
    session = onnxruntime.InferenceSession(bytes(read.data))
    assert session.run(None, feeds)[0].tolist() == [0, 0]
