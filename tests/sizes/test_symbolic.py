"""Sizes of outputs equal ONNX's shape inference for all sizes that meet the conditions."""

import random

import numpy as np
import pytest

from ep_nnapi.nnapi.sizes import Size, Trace, bound
from ep_nnapi.sizes.bind import bind_shapes
from ep_nnapi.sizes.symbols import size_named
from tests.onnx_graph import graph_of, parsed

IMAGE, ROWS = "float[n,3,h,w] x", "float[n,h,w] x"
CASES = {
    "Relu": (IMAGE, "y = Relu (x)"),
    "Add": (ROWS, "a = Transpose <perm=[0, 1, 2]> (x) y = Add (x, a)"),
    "Add broadcast": (ROWS, "y = Add (x, row)"),
    "Where": (ROWS, "c = Greater (x, row) y = Where (c, x, row)"),
    "MatMul": (ROWS, "t = Transpose <perm=[0, 2, 1]> (x) y = MatMul (x, t)"),
    "Gemm": ("float[n,4] x", "y = Gemm <transB=1> (x, weights)"),
    "Transpose": (IMAGE, "y = Transpose <perm=[0, 2, 3, 1]> (x)"),
    "Concat": (ROWS, "y = Concat <axis=1> (x, x, x)"),
    "Split": (ROWS, "y, z = Split <axis=2, num_outputs=2> (x)"),
    "Slice": (ROWS, "y = Slice (x, one, last, one)"),
    "Slice step": (ROWS, "y = Slice (x, one, last, one, two)"),
    "Slice back": (ROWS, "y = Slice (x, minus, least, one, minus)"),
    "Slice cut": (ROWS, "y = Slice (x, one, ten, one)"),
    "Gather": (ROWS, "y = Gather <axis=1> (x, two_by_one)"),
    "GatherElements": (ROWS, "i = ArgMax <axis=2> (x) y = GatherElements <axis=2> (x, i)"),
    "ReduceMean": (ROWS, "y = ReduceMean (x, one)"),
    "ReduceSum": (ROWS, "y = ReduceSum <keepdims=0> (x, minus)"),
    "ReduceMax": (ROWS, "y = ReduceMax (x)"),
    "ArgMax": (ROWS, "y = ArgMax <axis=1, keepdims=0> (x)"),
    "TopK": (ROWS, "y, i = TopK <axis=2> (x, one)"),
    "Unsqueeze": (ROWS, "y = Unsqueeze (x, one)"),
    "Squeeze": (ROWS, "u = Unsqueeze (x, one) y = Squeeze (u, one)"),
    "Flatten": (IMAGE, "y = Flatten <axis=2> (x)"),
    "Reshape": (ROWS, "y = Reshape (x, keep_rest)"),
    "Reshape computed": (
        ROWS,
        "s = Shape (x) a = Gather (s, one) b = Concat <axis=0> (a, minus) y = Reshape (x, b)",
    ),
    "Expand": ("float[n,1,w] x", "y = Expand (x, wide)"),
    "Tile": (ROWS, "y = Tile (x, wide)"),
    "ConstantOfShape": (ROWS, "s = Shape (x) y = ConstantOfShape (s)"),
    "Range": (
        ROWS,
        "s = Shape <start=1, end=2> (x) l = Squeeze (s) y = Range (zero, l, step)",
    ),
    "OneHot": ("int64[n,w] x", "y = OneHot (x, ten, zero_one)"),
    "Pad": (IMAGE, "y = Pad (x, pads)"),
    "Conv": (IMAGE, "y = Conv <strides=[2, 2], pads=[1, 1, 1, 1]> (x, filters)"),
    "Conv same": (IMAGE, 'y = Conv <strides=[2, 2], auto_pad="SAME_UPPER"> (x, filters)'),
    "Conv dilated": (IMAGE, "y = Conv <dilations=[2, 1]> (x, filters)"),
    "ConvTranspose": (
        "float[n,8,h,w] x",
        "y = ConvTranspose <strides=[2, 2], pads=[1, 1, 0, 0], output_padding=[1, 0]> (x, filters)",
    ),
    "MaxPool": (IMAGE, "y = MaxPool <kernel_shape=[3, 2], strides=[2, 2]> (x)"),
    "MaxPool ceil": (
        IMAGE,
        "y = MaxPool <kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1, pads=[1, 0, 0, 1]> (x)",
    ),
    "GlobalAveragePool": (IMAGE, "y = GlobalAveragePool (x)"),
    "Resize": (IMAGE, "y = Resize (x, , factors)"),
    "Resize sizes": (
        IMAGE,
        "s = Shape (x) d = Mul (s, doubled) y = Resize (x, , , d)",
    ),
    "LSTM": ("float[w,n,3] x", "y, h, c = LSTM <hidden_size=2> (x, gates, recurrent)"),
    "GRU": ("float[w,n,3] x", "y, h = GRU <hidden_size=2> (x, three_gates, three_recurrent)"),
    "DepthToSpace": ("float[n,8,h,w] x", "y = DepthToSpace <blocksize=2> (x)"),
    "SpaceToDepth": ("float[n,3,12,8] x", "y = SpaceToDepth <blocksize=2> (x)"),
    "LayerNormalization": (ROWS, "y = LayerNormalization <axis=1> (x, one_float)"),
    "Einsum": (ROWS, 'y = Einsum <equation="bij,bkj->bik"> (x, x)'),
    "CumSum": (ROWS, "y = CumSum (x, one)"),
    "Trilu": (ROWS, "y = Trilu (x)"),
    "QuantizeLinear": (ROWS, "y = QuantizeLinear (x, scale)"),
    "QLinearMatMul": (
        "uint8[n,h,w] x",
        """t = Transpose <perm=[0, 2, 1]> (x)
        y = QLinearMatMul (x, scale, middle, t, scale, middle, scale, middle)""",
    ),
    "QLinearConv": (
        "uint8[n,3,h,w] x",
        """y = QLinearConv <strides=[2, 2], pads=[1, 1, 0, 1]>
            (x, scale, middle, bytes, scale, middle, scale, middle)""",
    ),
    "FusedMatMul": (ROWS, "t = Relu (x) y = com.microsoft.FusedMatMul <transB=1> (x, t)"),
}
CONSTANTS = {
    "row": np.zeros((1,), np.float32),
    "weights": np.zeros((5, 4), np.float32),
    "zero": np.array(0),
    "step": np.array(1),
    "one": [1],
    "two": [2],
    "minus": [-1],
    "least": [-(2**63)],
    "last": [2**63 - 1],
    "ten": [10],
    "two_by_one": [[0], [1]],
    "keep_rest": [0, -1],
    "wide": [1, 3, 1],
    "zero_one": [0, 1],
    "pads": [0, 0, 1, 2, 0, 0, 3, 0],
    "filters": np.zeros((8, 3, 3, 3), np.float32),
    "factors": np.array([1, 1, 2, 1.5], np.float32),
    "doubled": [1, 1, 2, 3],
    "gates": np.zeros((1, 8, 3), np.float32),
    "recurrent": np.zeros((1, 8, 2), np.float32),
    "three_gates": np.zeros((1, 6, 3), np.float32),
    "three_recurrent": np.zeros((1, 6, 2), np.float32),
    "one_float": np.ones((1,), np.float32),
    "scale": np.float32(0.5),
    "middle": np.uint8(128),
    "bytes": np.zeros((8, 3, 3, 3), np.uint8),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_are_those_of_onnx(name: str) -> None:
    given, body = CASES[name]
    graph = graph_of(parsed(f"({given}) => (y) {{ {body} }}", 18, **CONSTANTS))
    (x,) = graph.inputs
    seed = random.randrange(2**32)
    rng, trace = random.Random(seed), Trace()
    sizes = {name: trace.size(name, value) for name, value in (("n", 5), ("h", 24), ("w", 14))}
    dims = _dims(graph, [sizes.get(d, d) for d in x.dims])
    assert any(isinstance(d, Size) for d in dims) or name == "ReduceMax"
    assert not [c for c in trace.conditions if c.relation == "== 0"]
    held = 0
    for _ in range(20):
        values = {name: rng.randint(2, 40) for name in sizes}
        if all(c.holds(values) for c in trace.conditions):
            held += 1
            exact = _dims(graph, [values.get(d, d) for d in x.dims])
            assert bound(dims, values) == exact, f"seed {seed}"
    assert held >= 3, f"seed {seed}: {[*map(str, trace.conditions)]}"


def test_what_has_no_rule_becomes_numbers() -> None:
    graph = graph_of(parsed("(float[n,8] x) => (y) { y = STFT (x, two, , four) }", 18, **STFT))
    trace = Trace()
    assert _dims(graph, [trace.size("n", 5), 8]) == (5, 3, 4, 2)
    assert [*map(str, trace.conditions)] == ["n + -5 == 0"]


STFT = {"two": np.array(2), "four": np.array(4)}


def _dims(graph, shape):
    """The sizes of the last node's first output."""
    bound_graph = bind_shapes(graph, {graph.inputs[0].name: tuple(shape)})
    return bound_graph.nodes[-1].outputs[0].dims


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("past + length", 12),
        ("(height//2)", 4),
        ("2*((height//2))", 8),
        ("batch*past - 1", None),
        ("height", None),
        ("__import__('os')", None),
        ("height//0", None),
        ("?", None),
        ("1+" * 150 + "1", None),
    ],
)
def test_names_that_are_expressions_of_sizes(text: str, size: int | None) -> None:
    assert size_named(text, {"past": 5, "length": 7, "height": 9}) == size
