"""Shape arithmetic keeps sizes: it equals what is folded for other numbers."""

import numpy as np
import pytest

from ep_nnapi.nnapi.sizes import Size, Trace, bound
from ep_nnapi.sizes.bind import bind_shapes
from tests.onnx_graph import graph_of, parsed

HEAD = "(float[n,m,4] x) => (int64[?] y) {{ s = Shape (x) {} }}"
CASES = {
    "concat": "a = Gather (s, zero) y = Concat <axis=0> (a, minus)",
    "slice": "y = Slice (s, one, three)",
    "product": "y = ReduceProd <keepdims=1> (s)",
    "sum": "a = Gather (s, zero) b = Gather (s, one) y = Add (a, b)",
    "quotient": "a = Gather (s, one) y = Div (a, three)",
    "remainder": "a = Gather (s, one) y = Mod (a, three)",
    "negative": "a = Gather (s, zero) b = Neg (a) y = Div (b, three)",
    "least": "a = Gather (s, one) y = Min (a, hundred)",
    "chosen": "a = Gather (s, zero) c = Equal (a, minus) y = Where (c, one, a)",
    "split": "a, b, c = Split <axis=0, num_outputs=3> (s) y = Mul (a, c)",
    "reshaped": "a = Reshape (s, three_one) y = Squeeze (a, one)",
    "start": "y = Shape <start=-2, end=-1> (x)",
    "cast": "a = Cast <to=6> (s) y = Cast <to=7> (a)",
    "tile": "y = Tile (s, three)",
    "transpose": "a = Unsqueeze (s, zero) b = Transpose (a) y = Squeeze (b, one)",
    "range": "a = Gather (s, at) b = Add (a, step) y = Range (a, b, step)",
    "size": "a = Size (x) y = Reshape (a, minus)",
}
OLDER = {
    "slice by attributes": "y = Slice <starts = [0], ends = [2]> (s)",
    "slice of axes": "y = Slice <axes = [0], starts = [-2], ends = [1000]> (s)",
}
"""Forms of opset 9."""
NUMBERS = {"zero": [0], "one": [1], "three": [3], "minus": [-1], "hundred": [100]}
NUMBERS |= {"at": np.array(0), "step": np.array(1)}


@pytest.mark.parametrize("name", [*CASES, *OLDER])
def test_sizes_are_kept(name: str) -> None:
    opset = 9 if name in OLDER else 18
    model = parsed(HEAD.format((CASES | OLDER)[name]), opset, three_one=[3, 1], **NUMBERS)
    graph = graph_of(model)
    trace = Trace()
    n, m = trace.size("n", 30), trace.size("m", 7)
    numbers = _contents(graph, (n, m, 4))
    assert any(isinstance(i, Size) for i in numbers)
    for values in ({"n": 2, "m": 3}, {"n": 64, "m": 17}, {"n": 31, "m": 99}):
        assert all(c.holds(values) for c in trace.conditions)
        exact = _contents(graph, (values["n"], values["m"], 4))
        assert [*bound(numbers, values)] == [*exact]


def test_what_has_no_rule_becomes_numbers() -> None:
    graph = graph_of(parsed(HEAD.format("y = Sign (s)"), 18, **NUMBERS))
    trace = Trace()
    assert _contents(graph, (trace.size("n", 30), 7, 4)) == (1, 1, 1)
    assert [*map(str, trace.conditions)] == ["n + -30 == 0"]


def _contents(graph, shape):
    (y,) = bind_shapes(graph, {"x": shape}).outputs
    assert y.constant is not None
    return y.constant.integers
