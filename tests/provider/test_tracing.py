"""Clusters lowered once for all sizes: bound, they are what is lowered for those sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.options.target import Target
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.declined import Declined
from ep_nnapi.provider.tracing import Tracing, difference
from tests.onnx_graph import graph_of, parsed

RUNTIME = HostRuntime()
COMPILER = Compiler(Target(8), RUNTIME, RUNTIME.devices()[0])


def lowered(model: onnx.ModelProto, sizes: Mapping[str, int], *, traced: bool) -> Lowered:
    graph = graph_of(model)
    shapes = {v.name: tuple(sizes.get(str(d), d) for d in v.dims or ()) for v in graph.inputs}
    by = COMPILER.lower_traced if traced else COMPILER.lower_for_shapes
    return by(graph.nodes, (graph.inputs, graph.outputs), graph.opsets, shapes)


def test_symbols_are_named_dimensions_and_others_of_their_own() -> None:
    graph = graph_of(parsed("(float[n,h,4] x, float[n,?] y) => (z) { z = Relu (x) }"))
    found = Tracing.of(graph.inputs, {"x": (5, 1, 4), "y": (5, 6)})
    assert found.symbols == {"n": 5, "y.1": 6}
    assert found.places == {"n": (("x", 0), ("y", 0)), "y.1": (("y", 1),)}


ATTENTION = """(float[n,t,8] q, float[n,p,8] k, float[n,p,8] v) => (float[n,t,8] y) {
    a = Reshape (q, heads) b = Transpose <perm=[0, 2, 1, 3]> (a)
    c = Reshape (k, heads) d = Transpose <perm=[0, 2, 3, 1]> (c)
    e = Reshape (v, heads) f = Transpose <perm=[0, 2, 1, 3]> (e)
    w = MatMul (b, d) u = Softmax (w) o = MatMul (u, f) r = Transpose <perm=[0, 2, 1, 3]> (o)
    s = Shape <start=0, end=2> (q) to = Concat <axis=0> (s, minus) y = Reshape (r, to)
}"""
CACHE = """(float[n,2,t,4] k, float[n,2,p,4] past, float[512,4] table) => (z, last) {
    all = Concat <axis=2> (past, k)
    s = Shape <start=2, end=3> (all) rows = Slice (table, zero, s, zero)
    z = Add (all, rows)
    end = Add (s, minus) last = Gather <axis=2> (z, end)
}"""
IMAGES = """(float[n,3,h,w] x) => (y) {
    a = Conv <strides=[2, 2], pads=[1, 1, 1, 1]> (x, filters) b = Relu (a)
    c = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (b)
    s = Shape <start=2, end=4> (b) d = Shape <start=0, end=2> (b) to = Concat <axis=0> (d, s)
    e = Resize <mode="linear"> (c, , , to) y = Concat <axis=1> (e, b)
}"""
CONSTANTS: Mapping[str, object] = {
    "heads": [0, -1, 2, 4],
    "minus": [-1],
    "zero": [0],
    "filters": np.ones((4, 3, 3, 3), np.float32),
}
N, T, P, H, W = "n", "t", "p", "h", "w"
CASES = {
    "attention": (ATTENTION, {N: 3, T: 5, P: 7}, [{N: 2, T: 9, P: 7}, {N: 64, T: 128, P: 40}]),
    "one query": (ATTENTION, {N: 1, T: 1, P: 7}, [{N: 1, T: 1, P: 6}, {N: 1, T: 1, P: 333}]),
    "cache": (CACHE, {N: 3, T: 5, P: 7}, [{N: 3, T: 2, P: 70}, {N: 9, T: 200, P: 311}]),
    "images": (IMAGES, {N: 2, H: 32, W: 48}, [{N: 3, H: 64, W: 64}, {N: 2, H: 16, W: 100}]),
}


@pytest.mark.parametrize("name", CASES)
def test_bound_it_is_what_is_lowered_for_those_sizes(name: str) -> None:
    text, sizes, others = CASES[name]
    model = parsed(text, 18, **CONSTANTS)
    traced = lowered(model, sizes, traced=True)
    for found in (sizes, *others):
        exact = lowered(model, found, traced=False)
        assert difference(traced.bind(found), exact) == ""


def test_conditions_say_for_which_sizes_it_holds() -> None:
    traced = lowered(parsed(CACHE, 18, **CONSTANTS), {N: 3, T: 5, P: 7}, traced=True)
    with pytest.raises(ValueError, match=r"-1 \* t \+ -1 \* p \+ 512 >= 0 does not hold"):
        traced.bind({N: 3, T: 300, P: 213})


def test_what_is_a_constant_of_one_size_is_declined() -> None:
    model = parsed("(float[n,4] x) => (y) { y = NonZero (x) z = Unique <axis=0> (x) }", 18)
    with pytest.raises(Declined):
        lowered(model, {N: 3}, traced=True)
