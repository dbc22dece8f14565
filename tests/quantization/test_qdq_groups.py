"""QDQ groups, and QLinear operators as such."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.quantization.qdq_groups import (
    DEQUANTIZE,
    FLOAT_EQUIVALENTS,
    QUANTIZE,
    as_group,
    group_qdq,
)

HALF = Quantization((0.5,), (3,))
WEIGHTS = Quantization((0.25, 2.0), (0, 0), 0)


def quantized(name: str, quantization: Quantization | None = HALF) -> Value:
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


Q = Quantization((0.5,), (3,))


def real(name: str) -> Value:
    return Value(name, DType.FLOAT, (2, 2))


def stored(name: str, array: np.ndarray | None = None) -> Value:
    constant = None if array is None else Constant.of(array)
    return Value(name, DType.UINT8, (2, 2), Q, constant)


def node(index: int, op_type: str, inputs: str, output: str, **values: Value) -> GraphNode:
    """Names are float values unless given; single names of upper case are quantized."""

    def value(name: str) -> Value:
        return values.get(name, stored(name) if name.isupper() else real(name))

    given = tuple(value(n) for n in inputs.split())
    return GraphNode(index, output, op_type, "", 13, given, (value(output),), members=(index,))


def chain() -> tuple[GraphNode, ...]:
    """A -DQ-> a -Tanh-> t -Q-> Y."""
    return (node(0, DEQUANTIZE, "A", "a"), node(1, "Tanh", "a", "t"), node(2, QUANTIZE, "t", "Y"))


def grouped(nodes: tuple[GraphNode, ...], outputs: str = "Y") -> list[tuple[str, tuple[int, ...]]]:
    values = [stored(n) if n.isupper() else real(n) for n in outputs.split()]
    return [(n.op_type, n.members) for n in group_qdq(nodes, values)]


def test_an_operator_between_dequantize_and_quantize_is_a_group() -> None:
    (group,) = group_qdq(chain(), [stored("Y")])
    assert (group.op_type, group.members, group.parts) == ("Tanh", (0, 1, 2), chain())
    assert [v.name for v in (*group.inputs, *group.outputs) if v] == ["A", "Y"]


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_an_activation_belongs_to_the_group(activation: str) -> None:
    first, second, _ = chain()
    nodes = (first, second, node(2, activation, "t", "r"), node(3, QUANTIZE, "r", "Y"))
    (group,) = group_qdq(nodes, [stored("Y")])
    assert group.activation == nodes[2]
    assert group.members == (0, 1, 2, 3)


def test_a_group_stands_where_its_last_member_stood() -> None:
    first, second, third = chain()
    between = node(9, "Neg", "x", "n")
    nodes = (first, second, between, third)
    assert grouped(nodes) == [("Neg", (9,)), ("Tanh", (0, 1, 2))]


SINGLE = [(DEQUANTIZE, (0,)), ("Tanh", (1,)), (QUANTIZE, (2,))]


def test_a_float_that_is_an_output_of_the_graph_prevents_the_group() -> None:
    assert grouped(chain(), "Y t") == SINGLE
    assert grouped(chain(), "Y a") == SINGLE


def test_a_second_consumer_prevents_the_group() -> None:
    for name in ("a", "t"):
        found = grouped((*chain(), node(3, "Neg", name, "n")), "Y n")
        assert found == [*SINGLE, ("Neg", (3,))]


def test_a_subgraph_that_reads_the_float_prevents_the_group() -> None:
    reader = replace(node(3, "If", "c", "n"), implicit=("t",))
    assert grouped((*chain(), reader), "Y n") == [*SINGLE, ("If", (3,))]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_node_of_another_provider_prevents_the_group(index: int) -> None:
    nodes = tuple(replace(n, claimed_by="Other" if n.id == index else "") for n in chain())
    assert grouped(nodes) == SINGLE


def test_dequantized_constants_alone_are_folded_into_the_operator() -> None:
    """The values are (stored - 3) / 2."""
    array = np.array([[3, 4], [5, 255]], np.uint8)
    nodes = (node(0, DEQUANTIZE, "W", "w", W=stored("W", array)), node(1, "MatMul", "x w", "y"))
    (group,) = group_qdq(nodes, [real("y")])
    assert (group.op_type, group.members, group.quantized) == ("MatMul", (0, 1), False)
    weights = group.inputs[1]
    assert weights is not None
    assert weights.constant is not None
    np.testing.assert_array_equal(weights.constant.array, [[0, 0.5], [1, 126]])


def rounding(readers: int, *outputs: str) -> tuple[GraphNode, ...]:
    """Relu, QuantizeLinear to 16 bits, and so many pairs of DequantizeLinear and Relu behind it."""
    x, r, *_ = (Value(name, DType.FLOAT, (2,)) for name in "xr")
    stored = Value("q", DType.UINT16, (2,), HALF)
    nodes = [
        GraphNode(0, "relu", "Relu", "", 14, (x,), (r,)),
        GraphNode(1, "quantize", QUANTIZE, "", 21, (r, scalar("s")), (stored,)),
    ]
    for i in range(readers):
        real, end = (Value(f"{name}{i}", DType.FLOAT, (2,)) for name in "dy")
        given = (stored, scalar("s"))
        nodes.append(GraphNode(2 + 2 * i, f"d{i}", DEQUANTIZE, "", 21, given, (real,)))
        nodes.append(GraphNode(3 + 2 * i, f"end{i}", "Relu", "", 14, (real,), (end,)))
    return group_qdq(tuple(nodes), [Value(n, DType.FLOAT, (2,)) for n in ("y0", *outputs)])


def test_16_bits_are_a_group_of_real_numbers_before_what_reads_them() -> None:
    found = rounding(2)
    assert [n.op_type for n in found] == ["Relu", QUANTIZE, "Relu", "Relu"]
    group = found[1]
    assert [v.name for v in group.outputs if v is not None] == ["d0", "d1"]
    assert [p.op_type for p in group.parts] == [QUANTIZE, DEQUANTIZE, DEQUANTIZE]
    assert not group.quantized


def test_16_bits_that_are_read_as_such_are_no_group() -> None:
    assert all(not n.parts for n in rounding(1, "q"))
    assert all(not n.parts for n in rounding(0))
