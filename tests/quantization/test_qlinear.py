"""QLinear operators become groups of the float operator that they are equivalent to."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.quantization.qlinear import FLOAT_EQUIVALENTS, as_group

Q = Quantization((0.5,), (3,))
WEIGHTS = Quantization((0.25, 2.0), (0, 0), 0)


def quantized(name: str, quantization: Quantization | None = Q) -> Value:
    return Value(name, DType.UINT8, (1, 2, 4, 4), quantization)


def scalar(name: str) -> Value:
    return Value(name, DType.FLOAT, (), constant=Constant.of(np.array(1, np.float32)))


def qlinear(op_type: str, tensors: dict[int, Value], count: int, **attributes: int) -> GraphNode:
    """The operator with scales and zero points where there are no tensors."""
    inputs = tuple(tensors.get(i, scalar(f"s{i}")) for i in range(count))
    return GraphNode(0, "n", op_type, "", 10, inputs, (quantized("y"),), attributes)


def names(node: GraphNode) -> list[str]:
    return [v.name for v in node.inputs if v is not None]


def test_scales_and_zero_points_are_dropped() -> None:
    node = qlinear("QLinearMul", {0: quantized("a"), 3: quantized("b")}, 8)
    group = as_group(node)
    assert (group.op_type, group.domain, group.parts) == ("Mul", "", (node,))
    assert names(group) == ["a", "b"]


def test_a_variadic_input_repeats_its_triple() -> None:
    node = qlinear("QLinearConcat", {2: quantized("a"), 5: quantized("b")}, 8, axis=1)
    assert names(as_group(node)) == ["a", "b"]


def test_an_unquantized_input_keeps_its_position() -> None:
    condition = Value("c", DType.BOOL, (1, 2, 4, 4))
    tensors = {0: condition, 1: quantized("a"), 4: quantized("b")}
    assert names(as_group(qlinear("QLinearWhere", tensors, 9))) == ["c", "a", "b"]


def test_a_bias_has_the_product_of_the_scales() -> None:
    bias = Value("b", DType.INT32, (2,), constant=Constant.of(np.zeros(2, np.int32)))
    tensors = {0: quantized("x"), 3: quantized("w", WEIGHTS), 8: bias}
    found = as_group(qlinear("QLinearConv", tensors, 9)).inputs[2]
    assert found is not None
    assert found.quantization == Quantization((0.125, 1.0), (0, 0), 0)


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 2), 1), ((1,), None), ((), None), ((2, 1), None)], ids=str
)
def test_scales_of_a_bias_are_along_its_last_axis(shape: tuple[int, ...], axis: int | None) -> None:
    """A bias of one number cannot have several scales: the node is no group then."""
    bias = Value("b", DType.INT32, shape, constant=Constant.of(np.zeros(shape, np.int32)))
    node = qlinear("QGemm", {0: quantized("x"), 3: quantized("w", WEIGHTS), 6: bias}, 9)
    found = as_group(node)
    if axis is None:
        assert found is node
        return
    assert found.inputs[2] is not None
    assert found.inputs[2].quantization == Quantization((0.125, 1.0), (0, 0), axis)


def test_the_axis_of_weights_follows_transb() -> None:
    gemm = FLOAT_EQUIVALENTS["QGemm"]
    node = qlinear("QGemm", {0: quantized("a"), 3: quantized("b")}, 9)
    assert gemm.axis(node, 3) == 1
    assert gemm.axis(replace(node, attributes={"transB": 1}), 3) == 0
    assert gemm.axis(node, 0) is None


def test_softmax_has_the_opset_of_its_attribute() -> None:
    node = qlinear("QLinearSoftmax", {0: quantized("x")}, 5, opset=11)
    assert as_group(node).since == 11
    assert as_group(replace(node, attributes={"opset": 17})).since == 13


@pytest.mark.parametrize(
    "node",
    [
        qlinear("QLinearMul", {0: quantized("a", None), 3: quantized("b")}, 8),
        qlinear("QLinearAveragePool", {0: quantized("x")}, 5, channels_last=1),
        qlinear("Mul", {0: quantized("a"), 1: quantized("b")}, 2),
    ],
    ids=["scale unknown", "channels last", "no QLinear operator"],
)
def test_others_are_unchanged(node: GraphNode) -> None:
    assert as_group(node) is node
