"""The nodes that define an operator of ONNX's own, read for one node."""

from dataclasses import replace

import pytest

from ep_nnapi.graph.definitions import defining_graph
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.sizes.control_flow import decide_control_flow
from tests.onnx_graph import graph_of, parsed


def defined(text: str, opset: int = 23) -> Graph | None:
    (node,) = graph_of(parsed(text, opset, ir_version=11)).nodes
    return defining_graph(node, decide_control_flow)


def test_a_definition_reads_and_computes_the_nodes_values() -> None:
    """Names between begin with that of the output, so that no two nodes share them."""
    found = defined("(float[2,3] x) => (float[2,3] y) { y = HardSwish (x) }")
    assert found is not None
    assert [n.op_type for n in found.nodes] == ["HardSigmoid", "Mul"]
    assert found.nodes[0].attributes["alpha"] == pytest.approx(1 / 6)
    assert ([v.name for v in found.inputs], [v.name for v in found.outputs]) == (["x"], ["y"])
    (between,) = (v for v in found.nodes[0].outputs if v is not None)
    assert (between.name.startswith("y/"), between.dtype) == (True, DType.FLOAT)
    assert found.nodes[-1].outputs == found.outputs


def test_one_that_depends_on_what_is_given() -> None:
    """CastLike becomes Cast: what it is like has a type, and no element of it is read."""
    text = "(float[1,2,5,8] q, float[1,2,7,8] k, float[1,2,7,8] v{}) => (float[1,2,5,8] y) {{ {} }}"
    plain = defined(text.format("", "y = Attention <softcap = 2.0> (q, k, v)"))
    masked = defined(text.format(", bool[5,7] m", "y = Attention (q, k, v, m)"))
    assert plain is not None
    assert masked is not None
    assert "Tanh" in {n.op_type for n in plain.nodes} - {n.op_type for n in masked.nodes}
    assert "CastLike" not in {n.op_type for n in (*plain.nodes, *masked.nodes)}
    constants = [v for n in plain.nodes for v in n.inputs if v is not None and v.constant]
    assert constants
    assert not any(n.op_type == "Constant" for n in plain.nodes)


@pytest.mark.parametrize(
    "text",
    [
        "(float[2] x) => (float[2] y) { y = Tan (x) }",
        "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }",
    ],
    ids=["none", "ONNX Runtime's own"],
)
def test_operators_without_one(text: str) -> None:
    assert defined(text) is None


AFFINE = "(float[1,2,3] x) => (float[1,5,6,2] y) <int64[4] s = {1, 2, 5, 6}>"


def test_branches_that_constants_decide_are_taken() -> None:
    found = defined(f"{AFFINE} {{ y = AffineGrid (x, s) }}")
    assert found is not None
    assert "MatMul" in {n.op_type for n in found.nodes}
    assert not {"If", "Constant"} & {n.op_type for n in found.nodes}


def test_branches_that_a_run_decides_are_left() -> None:
    found = defined("(float[1,N,M] x, int64[K] s) => (float[1,2,2,2] y) { y = AffineGrid (x, s) }")
    assert found is not None
    assert "If" in {n.op_type for n in found.nodes}


def test_nothing_is_defined_for_values_that_are_no_tensors() -> None:
    x, y = Value("x", DType.UNDEFINED), Value("y", DType.FLOAT)
    other = GraphNode(0, "n", "HardSwish", "other", 22, (y,), (replace(y, name="z"),))
    assert defining_graph(other, decide_control_flow) is None
    assert (
        defining_graph(GraphNode(0, "n", "HardSwish", "", 22, (x,), (y,)), decide_control_flow)
        is None
    )
