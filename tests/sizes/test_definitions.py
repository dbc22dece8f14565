"""Definitions for the sizes of a node: what is left of them to compute."""

import pytest

from ep_nnapi.sizes.definitions import definition
from tests.onnx_graph import graph_of, parsed

QKV = "float[1,2,5,8] q, float[1,2,7,8] k, float[1,2,7,8] v"


def left(text: str) -> list[str]:
    (node,) = graph_of(parsed(text, 23, ir_version=11)).nodes
    found = definition(node)
    assert found is not None
    assert [v.name for v in found.outputs] == ["y"]
    return [n.op_type for n in found.nodes]


@pytest.mark.parametrize(
    ("attributes", "more", "added"),
    [("is_causal = 0", "", []), ("is_causal = 1", "", ["Add"]), ("scale = 0.5", ", m", ["Add"])],
)
def test_shapes_scales_and_masks_of_constants_are_computed(attributes, more, added):
    """So are the rows that a mask hides completely, which a mask that is an input decides."""
    inputs = f"{QKV}, float[5,7] m" if more else QKV
    text = f"({inputs}) => (float[1,2,5,8] y) {{ y = Attention <{attributes}> (q, k, v{more}) }}"
    hidden = ["ReduceMax", "Equal", "Where"] if more else []
    found = [t for t in left(text) if t not in ("Unsqueeze", "Reshape", "Transpose", "Identity")]
    assert found == ["Mul", "Mul", "MatMul", *(added or found[3:4]), "Softmax", *hidden, "MatMul"]


@pytest.mark.parametrize(("part", "splits"), [(0, 0), (4, 1)])
def test_parts_without_elements_are_left_out(part: int, splits: int) -> None:
    """All numbers of a head are rotated, or some."""
    wide = (part or 8) // 2
    found = left(
        f"(float[1,2,5,8] x, float[1,5,{wide}] c, float[1,5,{wide}] s) => (float[1,2,5,8] y)"
        f"{{ y = RotaryEmbedding <rotary_embedding_dim = {part}> (x, c, s) }}"
    )
    assert found.count("Concat") == 1 + splits


def test_there_may_be_none() -> None:
    (node,) = graph_of(parsed("(float[2] x) => (float[2] y) { y = Tan (x) }")).nodes
    assert definition(node) is None
