"""Symbolic dimensions that have to be as large as weights and states."""

import numpy as np
import pytest
from onnx import helper

from ep_nnapi.graph.graph import Graph
from ep_nnapi.sizes.requirements import sizes_by_symbol
from ep_nnapi.sizes.trial_sizes import sample_graphs
from tests.onnx_graph import graph_of, model_of

Shape = tuple[int | str, ...]


def reading(shape: Shape, op_type: str, *weights: Shape, **attributes: object) -> Graph:
    """A graph of one node that reads x of this shape and constants, or x twice."""
    constants = {f"w{i}": np.ones(size, np.float32) for i, size in enumerate(weights)}
    made = helper.make_node(op_type, ["x", *(constants or "x")], ["y"], **attributes)
    return graph_of(model_of([made], {"x": shape}, {"y": None}, constants))


STATE = [(1, 12, 5), (1, 12, 4), (1, 24), (2,), (1, 2, 4)]
CASES = {
    "matrix": (("n", "k"), "MatMul", [(5, 7)], {}, {"k": 5}),
    "vector": (("n", "k"), "MatMul", [(5,)], {}, {"k": 5}),
    "stack": (("n", "m", "k"), "MatMul", [(2, 5, 7)], {}, {"k": 5}),
    "Gemm": (("n", "k"), "Gemm", [(5, 7)], {}, {"k": 5}),
    "Gemm, transposed": (("k", "n"), "Gemm", [(7, 5)], {"transA": 1, "transB": 1}, {"k": 5}),
    "Conv": (("n", "c", "h", "w"), "Conv", [(8, 3, 1, 1)], {"group": 2}, {"c": 6}),
    "RNN": (("t", "n", "k"), "RNN", [(1, 4, 5), (1, 4, 4)], {"hidden_size": 4}, {"k": 5}),
    "state": (("t", "n", 5), "GRU", STATE, {"hidden_size": 4}, {"n": 2}),
    "static": (("n", 5), "MatMul", [(5, 7)], {}, {}),
    "no weights": (("n", "k"), "MatMul", [], {}, {}),
    "another operator": (("n", "k"), "Add", [(5,)], {}, {}),
}


@pytest.mark.parametrize(
    ("shape", "op_type", "weights", "attributes", "expected"), CASES.values(), ids=CASES
)
def test_symbols_are_as_large_as_the_weights(shape, op_type, weights, attributes, expected) -> None:
    assert sizes_by_symbol(reading(shape, op_type, *weights, **attributes)) == expected


def test_samples_have_these_sizes_unless_others_are_fixed() -> None:
    seen = reading(("n", "k"), "MatMul", (5, 7))
    assert [sample.inputs[0].shape[1] for sample in sample_graphs(seen, {})] == [5, 5]
    assert len({sample.inputs[0].shape[0] for sample in sample_graphs(seen, {})}) == 2
    assert sample_graphs(seen, {"k": (6,)})[0].inputs[0].shape[1] == 6


def test_weights_behind_a_dequantization_count() -> None:
    constants = {"q": np.ones((5, 7), np.int8), "s": np.float32(0.1), "z": np.int8(0)}
    text = "w = DequantizeLinear (q, s, z) y = MatMul (x, w)"
    made = model_of(text, {"x": ("n", "k")}, {"y": None}, constants)
    assert sizes_by_symbol(graph_of(made)) == {"k": 5}
