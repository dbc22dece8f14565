"""Clusters lowered once for all sizes: bound, they are what is lowered for those sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.sizes import Trace, now
from ep_nnapi.options.target import Target
from ep_nnapi.provider import retracing
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.tracing import Tracing
from ep_nnapi.sizes.bind import bind_shapes
from models.zoo import MODELS
from tests.onnx_graph import graph_of, parsed
from tests.oracle import on_cpu
from tests.random_graphs import symbolic
from tests.random_graphs.symbolic import COMPILER, assert_equal, difference


def lowered(model: onnx.ModelProto, sizes: Mapping[str, int], *, traced: bool) -> Lowered:
    return symbolic.lowered(graph_of(model), sizes, traced=traced)


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
JOINED = """(float[n,t,4,h] x) => (y) { j = Reshape (x, join) y = MatMul (j, weights) }"""
CONSTANTS: Mapping[str, object] = {
    "join": [0, 0, -1],
    "weights": np.ones((32, 5), np.float32),
    "heads": [0, -1, 2, 4],
    "minus": [-1],
    "zero": [0],
    "first": np.array(0),
    "step": np.array(1),
    "three": np.array(3),
    "one": [1],
    "ones": [1, 1, 1],
    "two": [2],
    "low": np.float32(-5),
    "hundred": np.arange(400, dtype=np.float32).reshape(100, 4),
    "half": np.array([0.5], np.float32),
    "filters": np.ones((4, 3, 3, 3), np.float32),
}
N, M, T, P, H, W = "n", "m", "t", "p", "h", "w"
CASES = {
    "attention": (ATTENTION, {N: 3, T: 5, P: 7}, [{N: 2, T: 9, P: 7}, {N: 64, T: 128, P: 40}]),
    "one query": (ATTENTION, {N: 1, T: 1, P: 7}, [{N: 1, T: 1, P: 6}, {N: 1, T: 1, P: 333}]),
    "cache": (CACHE, {N: 3, T: 5, P: 7}, [{N: 3, T: 2, P: 70}, {N: 9, T: 200, P: 311}]),
    "joined": (JOINED, {N: 3, T: 5, H: 8}, [{N: 2, T: 9, H: 8}, {N: 64, T: 1, H: 8}]),
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


def test_a_size_without_others_is_kept() -> None:
    """Rows of 15 are pooled to one, as rows of 30, 45 and 60 are not."""
    text = """(float[n,3,h,8] x) => (y) {
        p = MaxPool <kernel_shape=[8, 8], strides=[8, 8]> (x) y = Reshape (p, rows) }"""
    model = parsed(text, 18, rows=[0, 3])
    traced = lowered(model, {N: 4, H: 15}, traced=True)
    feeds = {"x": np.random.default_rng(0).random((9, 3, 15, 8), np.float32)}
    (exact,) = on_cpu(model, feeds)
    np.testing.assert_array_equal(computed(traced.bind({N: 9, H: 15}), feeds, (9, 3)), exact)
    with pytest.raises(ValueError, match=r"h \+ -15 == 0 does not hold"):
        traced.bind({N: 9, H: 14})


def test_a_split_without_sizes_has_equal_parts() -> None:
    model = parsed("(float[2,2,2,n,1] x) => (a, b, c) { a, b, c = Split <axis=3> (x) }", 13)
    traced = lowered(model, {N: 6}, traced=True)
    traced.bind({N: 9})
    with pytest.raises(ValueError, match="does not hold"):
        traced.bind({N: 7})


@pytest.mark.parametrize("size", [7, 8])
def test_a_split_whose_last_part_may_be_smaller_holds_for_both(size: int) -> None:
    text = "(float[n,4] x) => (a, b) { a, b = Split <axis=0, num_outputs=2> (x) }"
    model = parsed(text, 18)
    traced = lowered(model, {N: size}, traced=True)
    for other in (3, 9, 10):
        assert_equal(traced.bind({N: other}), lowered(model, {N: other}, traced=False), 0)


HALVES = {
    "norm": 'LpPool <kernel_shape = [3, 2], strides = [1, 3], auto_pad = "SAME_UPPER"> (x)',
    "mean": "AveragePool <kernel_shape = [5, 3], pads = [2, 1, 2, 1], count_include_pad = 1> (x)",
}


@pytest.mark.parametrize("name", HALVES)
def test_pools_of_half_precision_are_rounded_once_for_all_sizes(name: str) -> None:
    """A factor that corrects what NNAPI counts is of floats, as padding with zeros needs none."""
    model = parsed(f"(float16[n,1,h,4] x) => (y) {{ y = {HALVES[name]} }}", 18)
    traced = lowered(model, {N: 2, H: 8}, traced=True)
    for sizes in ({N: 2, H: 8}, {N: 3, H: 5}):
        assert_equal(traced.bind(sizes), lowered(model, sizes, traced=False), 0)


def test_pools_of_three_dimensions_are_padded_for_all_sizes() -> None:
    window = "kernel_shape = [2, 3, 2], pads = [1, 1, 0, 0, 1, 1], count_include_pad = 1"
    model = parsed(f"(float[n,2,h,4,w] x) => (y) {{ y = AveragePool <{window}> (x) }}", 18)
    traced = lowered(model, {N: 2, H: 5, W: 6}, traced=True)
    feeds = {"x": np.random.default_rng(0).random((3, 2, 7, 4, 8), np.float32)}
    (exact,) = on_cpu(model, feeds)
    found = computed(traced.bind({N: 3, H: 7, W: 8}), feeds, exact.shape)
    np.testing.assert_allclose(found, exact, rtol=1e-5)  # sums in another order


COMPUTED = {
    "Range": """(float[n,4] x) => (float[n,4] y) {
        s = Shape <end=1> (x) l = Squeeze (s) r = Range (first, l, step)
        c = Cast <to=1> (r) d = Unsqueeze (c, one) y = Add (x, d) }""",
    "Range in steps": """(float[n,4] x) => (float[n,4] y) {
        s = Shape <end=1> (x) l = Squeeze (s) e = Mul (l, three) r = Range (first, e, three)
        c = Cast <to=1> (r) d = Unsqueeze (c, one) y = Add (x, d) }""",
    "Range from below zero": """(float[n,4] x) => (float[n,4] y) {
        s = Shape <end=1> (x) l = Squeeze (s) g = Neg (l) r = Range (g, first, step)
        c = Cast <to=1> (r) d = Unsqueeze (c, one) y = Add (x, d) }""",
    "Trilu": """(float[n,m,4] x) => (float[n,m,n] y) {
        s = Shape <end=2> (x) o = ConstantOfShape <value=float[1] {1.0}> (s)
        t = Trilu <upper=0> (o, step) w = Transpose <perm=[1, 0]> (t)
        a = ReduceSum <keepdims=0> (x, minus) b = Unsqueeze (a, two) y = Add (b, w) }""",
    "EyeLike": """(float[n,m,4] x) => (float[n,m] y) {
        a = ReduceSum <keepdims=0> (x, minus) e = EyeLike <k=-2> (a) y = Sub (a, e) }""",
    "EyeLike of integers": """(float[n,m,4] x) => (float[n,m] y) {
        a = ReduceSum <keepdims=0> (x, minus) i = EyeLike <dtype=6, k=3> (a) e = Cast <to=1> (i)
        y = Sub (a, e) }""",
    "token types": """(float[n,m,4] x) => (float[n,m,m] y) {
        s = Shape <end=2> (x) z = ConstantOfShape <value=int64[1] {0}> (s)
        r = Unsqueeze (z, one) c = Unsqueeze (z, two) b = Equal (r, c)
        t = Transpose <perm=[0, 2, 1]> (x) p = MatMul (x, t) y = Where (b, p, low) }""",
    "transposed integers": """(float[n,m,4] x) => (float[m,n] y) {
        i = ArgMax <axis=2, keepdims=0> (x) t = Transpose <perm=[1, 0]> (i)
        y = Cast <to=1> (t) }""",
    "integers of four axes": """(float[n,m,4,5] x) => (float[4,n,5,m] y) {
        i = Cast <to=6> (x) t = Transpose <perm=[2, 0, 3, 1]> (i) y = Cast <to=1> (t) }""",
    "integers of five axes": """(float[n,m,2,1,2] x) => (float[2,n,2,m,1] y) {
        i = Cast <to=6> (x) t = Transpose <perm=[2, 0, 4, 1, 3]> (i) y = Cast <to=1> (t) }""",
    "CumSum": "(float[n,m] x) => (float[n,m] y) { y = CumSum <exclusive=1> (x, step) }",
    "CumSum back": "(float[n,m] x) => (float[n,m] y) { y = CumSum <reverse=1> (x, first) }",
    "causal mask": """(float[n,m,4] x) => (float[n,m,m] y) {
        s = Shape <start=1, end=2> (x) l = Squeeze (s) r = Range (first, l, step)
        q = Unsqueeze (r, one) k = Unsqueeze (r, zero) h = Greater (k, q)
        t = Transpose <perm=[0, 2, 1]> (x) p = MatMul (x, t) y = Where (h, low, p) }""",
    "GatherElements": """(float[n,m] x) => (float[n,m] y) {
        i = ArgMax <axis=1> (x) s = Shape (x) e = Expand (i, s)
        y = GatherElements <axis=1> (x, e) }""",
    "GatherElements of five axes": """(float[2,n,1,2,m] x) => (float[2,n,1,2,m] y) {
        i = ArgMax <axis=4> (x) s = Shape (x) e = Expand (i, s)
        y = GatherElements <axis=4> (x, e) }""",
    "GatherND": """(float[n,m,4] x) => (float[n,1,4] y) {
        a = ReduceSum <keepdims=0> (x, minus) i = ArgMax <axis=1> (a)
        s = Shape <end=1> (x) l = Squeeze (s) r = Range (first, l, step) u = Unsqueeze (r, one)
        j = Concat <axis=1> (u, i) v = GatherND (x, j) y = Unsqueeze (v, one) }""",
    "row of a table": """(float[1,1,4] x, float[1,m,4] past) => (float[1,k,4] y) {
        s = Shape <start=1, end=2> (past) i = Reshape (s, ones) g = GatherND (hundred, i)
        a = Add (x, g) y = Concat <axis=1> (past, a) }""",
    "one more token": """(float[1,1,4] x, float[1,m,4] past) => (float[1,k,4] y) {
        s = Shape <start=1, end=2> (past) l = Squeeze (s) e = Add (l, step) r = Range (l, e, step)
        g = Gather (hundred, r) c = Cast <to=1> (r) u = Unsqueeze (c, one) a = Add (x, u)
        b = Add (a, g) y = Concat <axis=1> (past, b) }""",
    "Gemm": """(float[n,4] x, float[4,m] z) => (float[n,m] y) {
        y = Gemm (x, z, low) }""",
    "slice": """(float[n,4,m] x) => (float[n,4,m] y) {
        u = Gather <axis=1> (x, one) s = Shape (u) i = Expand (one, s) r = Neg (u)
        y = ScatterElements <axis=1> (x, i, r) }""",
    "expanded": """(float[n,m] x) => (float[n,m] y) {
        s = Shape (x) e = Expand (half, s) y = Mul (x, e) }""",
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_depends_on_sizes_alone_is_computed(name: str) -> None:
    model = parsed(COMPUTED[name], 18, **CONSTANTS)
    traced = lowered(model, {N: 6, M: 10}, traced=True)
    for sizes in ({N: 6, M: 10}, {N: 9, M: 11}, {N: 12, M: 40}):
        rng = np.random.default_rng(0)
        feeds = {
            v.name: rng.random([sizes.get(str(d), d) for d in v.dims or ()], np.float32)
            for v in graph_of(model).inputs
        }
        (exact,) = on_cpu(model, feeds)
        found = computed(traced.bind(sizes), feeds, exact.shape)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)  # sums in another order


def test_a_diagonal_of_booleans_has_the_sizes_of_a_run() -> None:
    text = """(float[n,m] x) => (float[n,m] y) {
        e = EyeLike <dtype=9, k=1> (x) y = Where (e, low, x) }"""
    traced = lowered(parsed(text, 18, **CONSTANTS), {N: 6, M: 10}, traced=True)
    ones = np.ones((9, 4), np.float32)
    found = computed(traced.bind({N: 9, M: 4}), {"x": ones}, ones.shape)
    np.testing.assert_array_equal(found, ones - 6 * np.eye(9, 4, 1))


def computed(bound: Lowered, feeds: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    compiled = COMPILER.compile(COMPILER.prepare(bound))
    out = np.empty(shape, np.float32)
    border = compiled.lowered.border.bind([*feeds], ["y"])
    border.run(compiled.compilation, [*feeds.values()], lambda *_: out, RunOptions())
    return out


ZOO: Mapping[str, tuple[Mapping[str, int], Sequence[Mapping[str, int]]]] = {
    "resnet18": (
        {"batch": 2, "height": 64, "width": 96},
        [{"batch": b, "height": h, "width": w} for b, h, w in ((3, 65, 97), (2, 200, 33))],
    ),
    "segmentation": (
        {"batch": 2, "height": 64, "width": 96},
        [{"batch": b, "height": h, "width": w} for b, h, w in ((3, 80, 112), (2, 32, 240))],
    ),
    "denoiser_lstm": ({"batch": 2, "frames": 7}, [{"batch": 3, "frames": f} for f in (5, 40)]),
}


LONG = [pytest.param("resnet18", marks=pytest.mark.long)]


@pytest.mark.parametrize("name", [*(n for n in ZOO if n != "resnet18"), *LONG])
def test_networks_are_lowered_once(name: str) -> None:
    sizes, others = ZOO[name]
    model = MODELS[name](dynamic=("batch", "size"))
    traced = lowered(model, sizes, traced=True)
    for found in (sizes, *others):
        assert_equal(traced.bind(found), lowered(model, found, traced=False), 0)


def test_scattered_elements_hold_for_their_sizes_alone() -> None:
    text = "(float[n,4] x) => (y) { y = ScatterElements (x, places, updates) }"
    places, updates = np.array([[1, 0, 1, 1]]), np.ones((1, 4), np.float32)
    model = parsed(text, 18, places=places, updates=updates)
    with pytest.raises(Declined, match="these sizes alone"):
        lowered(model, {N: 3}, traced=True)


def test_what_is_a_constant_of_one_size_is_declined() -> None:
    model = parsed("(float[n,4] x) => (y) { y = NonZero (x) z = Unique <axis=0> (x) }", 18)
    with pytest.raises(Declined):
        lowered(model, {N: 3}, traced=True)


MODEL = """(float[n,4] x) => (float[n,4] y) {
    a = Exp (x) b = Exp (a) s = Shape (b) e = Reshape (b, s) y = Tanh (e) }"""
Judge = Callable[..., CapableNode | Rejection]


def difference_of_sizes(monkeypatch: pytest.MonkeyPatch, judged: Judge) -> str:
    """What is found of the model, lowered by this function, for other sizes."""
    trace = Trace()
    graph = bind_shapes(graph_of(parsed(MODEL, 18)), {"x": (trace.size("n", 6), 4)})
    first = [judged(node, Target(8), trace=trace) for node in graph.nodes]
    monkeypatch.setattr(retracing, "judge", judged)
    members = [member for member in first if isinstance(member, CapableNode)]
    return retracing.difference(members, {"n": 11}, trace, Target(8))


@pytest.mark.parametrize("unnoted", [True, False])
def test_nodes_of_a_kind_without_conditions_are_lowered_once_more(unnoted: bool, monkeypatch):
    lowered: list[str] = []

    def counted(
        node: GraphNode, target: Target, *, checked: bool = True, trace: Trace | None = None
    ) -> CapableNode | Rejection:
        lowered.append(node.op_type)
        made = judge(node, target, checked=checked, trace=trace)
        return replace(made, unnoted=unnoted) if isinstance(made, CapableNode) else made

    assert difference_of_sizes(monkeypatch, counted) == ""
    again = ["Exp", "Reshape", "Tanh"] if unnoted else []
    assert lowered == ["Exp", "Exp", "Shape", "Reshape", "Tanh", *again]


@pytest.mark.parametrize(
    ("text", "unnoted"),
    [
        ("(float[n,4] x) => (y) { y = Relu (x) }", False),
        ("(float[n,4] x) => (y) { y = CumSum (x, zero) }", True),
        ("(float[n,4] x, float[m,4] z) => (y) { y = Concat <axis=0> (x, z) }", False),
        ("(float[1,1,n,m] x) => (y) { y = Resize (x, , scales) }", True),
    ],
)
def test_lowerings_say_whether_conditions_cover_them(text: str, unnoted: bool) -> None:
    trace, model = Trace(), parsed(text, 18, zero=0, scales=np.float32([1, 1, 2, 2]))
    known = {"n": trace.size("n", 6), "m": trace.size("m", 8)}
    graph = graph_of(model)
    shapes = {v.name: tuple(known.get(str(d), d) for d in v.dims or ()) for v in graph.inputs}
    (node,) = bind_shapes(graph, shapes).nodes
    made = judge(node, Target(8), trace=trace)
    assert isinstance(made, CapableNode)
    assert made.unnoted is unnoted


@pytest.mark.parametrize("use", [now, lambda n: hash(n + 1), lambda n: {6: 1, 11: 2}[n]])
def test_a_number_that_is_read_without_a_condition_is_found(use, monkeypatch):
    def leaking(
        node: GraphNode, target: Target, *, checked: bool = True, trace: Trace | None = None
    ) -> CapableNode | Rejection:
        before = trace.unnoted if trace is not None else 0
        made = judge(node, target, checked=checked, trace=trace)
        if node.op_type != "Tanh" or isinstance(made, Rejection) or node.inputs[0] is None:
            return made
        (call,) = made.calls
        number = use(node.inputs[0].shape[0])
        unnoted = trace is not None and trace.unnoted > before
        return replace(made, calls=(replace(call, inputs=(*call.inputs, number)),), unnoted=unnoted)

    assert difference_of_sizes(monkeypatch, leaking) == "TANH of y"


def test_a_node_that_is_rejected_for_other_sizes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(
        node: GraphNode, target: Target, *, checked: bool = True, trace: Trace | None = None
    ) -> CapableNode | Rejection:
        if node.outputs[0] is not None and now(node.outputs[0].shape[0]) > 10:
            return Rejection(node.name, node.op_type, Reason.SHAPE, "it is large")
        made = judge(node, target, checked=checked, trace=trace)
        return replace(made, unnoted=True) if isinstance(made, CapableNode) else made

    assert "it is large" in difference_of_sizes(monkeypatch, limited)
