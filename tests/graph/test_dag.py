"""The DAG of node ids: edges, tensor bytes, constants and implicit inputs."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.dag import bytes_of, dag_of, inputs_of, mean_of
from ep_nnapi.graph.graph import Graph, GraphNode, copy_constants
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from tests.onnx_graph import graph_of
from tests.provider.test_dynamic_cluster import SUM

X, A, B, Y = (Value(name, DType.FLOAT, (2, 3)) for name in "xaby")


def node(index: int, inputs: tuple[Value, ...], output: Value) -> GraphNode:
    return GraphNode(index, output.name, "Op", "", 1, inputs, (output,))


def diamond() -> Graph:
    """Node 0 computes a from x, node 1 computes b from a, node 2 computes y from a and b."""
    nodes = (node(0, (X,), A), node(1, (A,), B), node(2, (A, B), Y))
    return Graph("main", nodes, (X,), (Y,))


def test_edges_have_the_bytes_of_their_tensors() -> None:
    dag = dag_of(diamond())
    expected = {(0, 1): {"a": 24}, (0, 2): {"a": 24}, (1, 2): {"b": 24}}
    assert {(u, v): d["tensors"] for u, v, d in dag.edges(data=True)} == expected
    assert dag.nodes[0]["inputs"] == {"x": 24}
    assert dag.nodes[2]["outputs"] == {"y": 24}


def test_the_mean_has_the_mean_bytes() -> None:
    small, large = dag_of(diamond()), dag_of(diamond())
    large.edges[0, 1]["tensors"]["a"] = 48
    large.nodes[0]["inputs"]["x"] = 40
    mean = mean_of([small, large])
    assert mean.edges[0, 1]["tensors"] == {"a": 36}
    assert (mean.nodes[0]["inputs"], mean.nodes[2]["outputs"]) == ({"x": 32}, {"y": 24})


def test_two_tensors_between_two_nodes_share_an_edge() -> None:
    split = GraphNode(0, "split", "Split", "", 1, (X,), (A, B))
    dag = dag_of(Graph("main", (split, node(1, (A, B), Y)), (X,), (Y,)))
    assert dag.edges[0, 1]["tensors"] == {"a": 24, "b": 24}


def test_constants_are_left_out_unless_they_are_folded() -> None:
    """A folded value is still computed by a node of the graph."""
    constant = replace(B, constant=Constant.of(np.zeros((2, 3), np.float32)))
    assert inputs_of(node(0, (A, constant), Y)) == (A,)
    assert len(inputs_of(node(0, (A, replace(constant, folded=True)), Y))) == 2


def test_an_input_of_a_subgraph_is_an_edge() -> None:
    reader = replace(node(1, (X,), Y), implicit=("a", "elsewhere"))
    dag = dag_of(Graph("main", (node(0, (X,), A), reader), (X,), (Y,)))
    assert dag.edges[0, 1]["tensors"] == {"a": 24}


@pytest.mark.parametrize(
    ("dtype", "dims", "size"),
    [
        (DType.FLOAT16, (2, 3), 12),
        (DType.INT64, (), 8),
        (DType.FLOAT, (2, "N"), 8),
        (DType.FLOAT, None, 1),
        (DType.STRING, (5,), 5),
    ],
)
def test_unknown_sizes_count_as_one(dtype: DType, dims, size: int) -> None:
    assert bytes_of(Value("v", dtype, dims)) == size


# QDQ groups as nodes: their quantization and their original nodes

FLOAT = Value("f", DType.FLOAT, (2,))
BYTES = Value("q", DType.UINT8, (2,), Quantization((0.5,), (3,)))


def test_a_single_node_represents_itself() -> None:
    node = GraphNode(0, "n", "Relu", "", 14, (BYTES,), (BYTES,))
    assert node.originals == (node,)
    assert not node.quantized


def test_a_group_represents_its_parts() -> None:
    parts = tuple(GraphNode(i, f"n{i}", "Relu", "", 14, (FLOAT,), (FLOAT,)) for i in range(3))
    group = GraphNode(1, "n1", "Relu", "", 14, (BYTES,), (None, BYTES), parts=parts)
    assert group.originals == parts
    assert group.quantized


def test_a_group_with_folded_constants_only_is_not_quantized() -> None:
    part = GraphNode(0, "n", "Relu", "", 14, (FLOAT,), (FLOAT,))
    assert not GraphNode(0, "n", "Relu", "", 14, (FLOAT, None), (FLOAT,), parts=(part,)).quantized


def test_copied_constants_outlive_their_source():
    (add, _) = graph_of(SUM).nodes
    weights = np.ones(3, np.float32)
    inputs = [v for v in add.inputs if v is not None and v.constant is not None]
    assert len(inputs) == 1
    (copied, again) = copy_constants([add, add])
    constants = [
        v.constant for n in (copied, again) for v in n.inputs if v is not None and v.constant
    ]
    assert all(isinstance(c, Constant) for c in constants)
    assert constants[0] is constants[1]  # copied once
    np.testing.assert_array_equal(constants[0].array, weights)
    assert not np.shares_memory(constants[0].array, inputs[0].constant.array)
    (once_more,) = copy_constants([copied])
    assert constants[0] in [v.constant for v in once_more.inputs if v is not None]
    assert all(v is w for v, w in zip(once_more.inputs, copied.inputs, strict=True))
