"""Nodes that form a QDQ group, on graphs of a few nodes."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.quantization.qdq_groups import DEQUANTIZE, QUANTIZE, group_qdq

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
