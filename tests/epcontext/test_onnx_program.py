"""ONNX nodes over the weights of a container: small, and the same results."""

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.epcontext.alternatives import plain_crossing
from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.epcontext.onnx_program import INSIDE, onnx_program
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border
from tests.onnx_graph import parsed

X = np.linspace(-1, 1, 180, dtype=np.float32).reshape(1, 5, 6, 6)
WEIGHT = np.random.default_rng(3).normal(size=(8, 5, 3, 3)).astype(np.float32)


def border(*shapes: tuple[int, ...]) -> Border:
    """Of x and y."""
    named = zip("xy", shapes, strict=True)
    x, y = (plain_crossing(name, DType.FLOAT, shape, 0) for name, shape in named)
    return Border((x,), (y,))


def convolution() -> tuple[onnx.ModelProto, Border]:
    """A convolution whose weight has other names than the graph's ends."""
    text = """(float[1,5,6,6] x) => (float[1,8,4,4] y) { long_name = Conv (x, weight)
        y = Tanh (long_name) }"""
    return parsed(text, weight=WEIGHT), border((1, 5, 6, 6), (1, 8, 4, 4))


def as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("perm", [None, (0, 2, 3, 1), (1, 2, 3, 0)])
def test_a_constant_in_another_order_of_axes_is_read_from_there(perm: tuple[int, ...] | None):
    model, ends = convolution()
    there = [as_bytes(WEIGHT[::-1]), as_bytes(WEIGHT.transpose(perm or (0, 1, 2, 3)))]
    made = onnx_program("cpu", model, ends, there)
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
    model = parsed("(float[1,6] x) => (float[1,40] y) { y = MatMul (x, w) }", w=MATRIX)
    there = [as_bytes(array) for array in OTHERWISE[case]]
    made = onnx_program("cpu", model, border((1, 6), (1, 40)), there)
    assert made.linked is not None
    assert {id(a) for a in made.linked.constants} == {id(a) for a in there}
    x = np.linspace(-1, 1, 6, dtype=np.float32)[None]
    assert computed(made, x) == result(model, x)


@pytest.mark.parametrize("raw", [False, True])
def test_numbers_of_4_bits_are_stored_by_twos(raw: bool):
    model = parsed(
        "(float[1,20] x) => (float[1,9] y) { f = DequantizeLinear (w, s) y = MatMul (x, f) }",
        opset=21,
        s=np.float32(0.5),
    )
    numbers, kind = np.arange(180) % 16 - 8, onnx.TensorProto.INT4
    tensor = onnx.helper.make_tensor("w", kind, (20, 9), numbers)
    if raw:
        pairs = bytes(tensor.int32_data)
        tensor = onnx.helper.make_tensor("w", kind, (20, 9), pairs, raw=True)
    model.graph.initializer.append(tensor)
    bytes_of_8 = as_bytes(numbers.astype(np.int8))
    made = onnx_program("cpu", model, border((1, 20), (1, 9)), [bytes_of_8[:90], bytes_of_8])
    assert made.linked is not None
    assert [held.size for held in made.linked.constants] == [90]
    x = np.linspace(-1, 1, 20, dtype=np.float32)[None]
    assert computed(made, x) == result(model, x)


def result(model: onnx.ModelProto, x: np.ndarray = X) -> bytes:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {"x": x})[0]).tobytes()


def computed(made, x: np.ndarray = X) -> bytes:
    """The result of the only alternative of a container."""
    content = unpack(pack(made).with_embedded_weights(), None, 1)
    (read,) = content.alternatives
    options = onnxruntime.SessionOptions()
    weights = bytes(content.weights)
    options.add_external_initializers_from_files_in_memory(["weights"], [weights], [len(weights)])
    session = onnxruntime.InferenceSession(bytes(read.data), options)
    return np.asarray(session.run(None, {"x": x})[0]).tobytes()


@pytest.mark.parametrize("size", [INSIDE // 4, INSIDE // 4 + 1])
def test_small_constants_are_in_the_model(size: int):
    text = f"(float[{size}] x) => (float[{size}] y) {{ y = Add (x, w) }}"
    model = parsed(text, w=np.ones(size, np.float32))
    made = onnx_program("cpu", model, border((size,), (size,)))
    assert made.linked is not None
    assert len(made.linked.constants) == (size * 4 > INSIDE)


def test_names_that_inner_graphs_read_stay():
    then, other = (
        f"{name} () => (float[2] {name}_out) {{ {name}_out = Add (outer, x) }}"
        for name in ("then", "other")
    )
    model = parsed(
        f"""(bool c, float[2] x) => (float[2] y) {{ outer = Neg (x)
        y = If (c) <then_branch = {then}, else_branch = {other}> }}"""
    )
    c, x = plain_crossing("c", DType.BOOL, (), 0), plain_crossing("x", DType.FLOAT, (2,), 1)
    made = onnx_program("cpu", model, Border((c, x), (plain_crossing("y", DType.FLOAT, (2,), 0),)))
    (read,) = unpack(pack(made).with_embedded_weights(), None, 1).alternatives
    feeds = {"c": np.array(True), "x": np.array([1, 2], np.float32)}
    session = onnxruntime.InferenceSession(bytes(read.data))
    assert session.run(None, feeds)[0].tolist() == [0, 0]
