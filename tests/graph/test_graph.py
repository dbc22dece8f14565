"""QDQ groups as nodes: their quantization and their original nodes."""

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Quantization, Value

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
