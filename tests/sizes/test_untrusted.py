"""Declared sizes of intermediates are not trusted where they cannot be right."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session, quiet
from tests.onnx_graph import model_of, nodes_of, serialized, typed

CLOSE = 1e-6  # both add the same few float32 numbers
SIZES = (1, 4, 6, 5)
X = np.random.default_rng(6).standard_normal(SIZES).astype(np.float32)
LAYERS = {
    "MeanVarianceNormalization": (13, ["x"], {}, TensorProto.FLOAT),
    "GroupNormalization": (21, ["x", "s", "s"], {"num_groups": 2}, TensorProto.FLOAT),
    "LessOrEqual": (12, ["x", "s"], {}, TensorProto.BOOL),
}
"""Operators that ONNX infers no sizes of: opset, inputs, attributes and what they compute."""


LAST = "[cast] f = Cast <to = 1> ({}) [sigmoid] y = Sigmoid (f)"


def declaring(op_type: str, sizes: tuple[int, ...]) -> bytes:
    """x [1, 4, 6, 5] -> that layer -> c, declared to have these sizes -> Cast, Sigmoid -> y."""
    opset, inputs, attributes, kind = LAYERS[op_type]
    layer = helper.make_node(op_type, inputs, ["c"], "layer", **attributes)
    shape = (4,) if opset == 21 else (1,)
    constants = {"s": np.ones(shape, np.float32)} if "s" in inputs else {}
    declared = {"c": typed(kind, sizes)}
    nodes, ends = [layer, *nodes_of(LAST.format("c"))], ({"x": SIZES}, {"y": None})
    return model_of(nodes, *ends, constants, opset, declared=declared).SerializeToString()


def session(model: bytes, *, nnapi: bool, **options: str) -> ort.InferenceSession:
    return nnapi_session(model, severity=4, **options) if nnapi else session_of(model, quiet())


def run(model: bytes, *, nnapi: bool, **options: str) -> np.ndarray:
    return session(model, nnapi=nnapi, **options).run(None, {"x": X})[0]


@pytest.mark.parametrize("sizes", [SIZES, (1, 4, 5, 5), (1, 4, 6, 1)])
@pytest.mark.parametrize("op_type", LAYERS)
def test_sizes_that_cannot_be_are_found_anew(op_type: str, sizes: tuple[int, ...]) -> None:
    model = declaring(op_type, sizes)
    report = ep_nnapi.check(model)
    assert (report.rejections, len(report.clusters)) == ((), 1)
    np.testing.assert_allclose(run(model, nnapi=True), run(model, nnapi=False), atol=CLOSE)


@pytest.mark.parametrize("op_type", LAYERS)
def test_after_a_layer_that_is_left_out_too(op_type: str) -> None:
    model = declaring(op_type, (1, 4, 5, 5))
    ours = run(model, nnapi=True, exclude="layer")
    np.testing.assert_allclose(ours, run(model, nnapi=False), atol=CLOSE)


# what decides on the sizes of the first node's output, which has others than it is declared with

DECIDING = {
    "NonZero": (["x"], {}, (1, 2), {"x": np.array([1, 0, 2, 3], np.float32)}),
    "Unique": (["x"], {}, (3,), {"x": np.arange(6, dtype=np.float32)}),
    "Compress": (
        ["x", "c"],
        {"axis": 0},
        (1, 2),
        {"x": np.ones((3, 2), np.float32), "c": np.array([True, False, True])},
    ),
    "Reshape": (["x", "s"], {}, (2, 4), {"x": np.ones((4, 2), np.float32), "s": np.array([8, 1])}),
    "Expand": (["x", "s"], {}, (2, 2), {"x": np.ones((1, 2), np.float32), "s": np.array([3, 1])}),
    "Tile": (["x", "s"], {}, (2, 2), {"x": np.ones((1, 2), np.float32), "s": np.array([3, 1])}),
    "Slice": (
        ["x", "s", "e"],
        {},
        (2,),
        {"x": np.ones(6, np.float32), "s": np.array([0]), "e": np.array([5])},
    ),
    "Resize": (
        ["x", "", "", "s"],
        {},
        (1, 1, 8, 8),
        {"x": np.ones((1, 1, 4, 4), np.float32), "s": np.array([1, 1, 2, 2])},
    ),
}


@pytest.mark.parametrize("op_type", DECIDING)
def test_sizes_on_which_data_decides(op_type: str) -> None:
    inputs, attributes, declared, feeds = DECIDING[op_type]
    decided = helper.make_node(op_type, inputs, ["d"], "decided", **attributes)
    nodes = [decided, *nodes_of(LAST.format("d"))]
    sizes = {"d": (np.int64 if op_type == "NonZero" else np.float32, declared)}
    given = {n: (a.dtype.type, a.shape) for n, a in feeds.items()}
    made = model_of(nodes, given, {"y": None}, declared=sizes)
    (got,), (want,) = (
        session(made.SerializeToString(), nnapi=n).run(None, feeds) for n in (True, False)
    )
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=CLOSE)


def test_slopes_may_be_larger_than_the_tensor() -> None:
    """ONNX Runtime computes what ONNX does not allow, and infers the tensor's sizes for it."""
    text = "(float[1,4,6,5] x) => (y) { [prelu] p = PRelu (x, s) [sigmoid] y = Sigmoid (p) }"
    slopes = np.linspace(-1, 1, 3, dtype=np.float32)[:, None, None, None]
    model = serialized(text, 16, s=slopes)
    (refused,) = ep_nnapi.check(model).rejections
    assert (refused.node, refused.reason) == ("prelu", "SHAPE")
    ours = run(model, nnapi=True)
    assert ours.shape == (3, 4, 6, 5)
    np.testing.assert_allclose(ours, run(model, nnapi=False), atol=CLOSE)


def test_empty_axes_squeeze_all_dimensions_of_1() -> None:
    """As ONNX Runtime computes; ONNX infers that none goes."""
    text = "(float[1,4,6,5] x) => (y) { [squeeze] s = Squeeze (x, axes) [sigmoid] y = Sigmoid (s) }"
    model = serialized(text, 16, axes=np.zeros(0, np.int64))
    ours = run(model, nnapi=True)
    assert ours.shape == SIZES[1:]
    np.testing.assert_allclose(ours, run(model, nnapi=False), atol=CLOSE)


UNSIZED = {
    "Gelu": (["x"], ()),
    "BiasGelu": (["x", "b"], (2, 3)),
    "FusedMatMul": (["x", "m"], (2, 3)),
    "CDist": (["x", "m"], (2, 3)),
}
"""Operators of com.microsoft: inputs, and the shape of x, for which the declared [5, 7] is wrong.

ONNX Runtime infers nothing where x has no declared shape; CDist has no substitute either."""


@pytest.mark.parametrize("op_type", UNSIZED)
def test_what_is_declared_of_an_operator_with_an_input_of_unknown_shape(op_type: str) -> None:
    inputs, shape = UNSIZED[op_type]
    first = helper.make_node(op_type, inputs, ["c"], "first", domain="com.microsoft")
    nodes, outputs = [first, *nodes_of("[sigmoid] y = Sigmoid (c)")], {"c": (5, 7), "y": None}
    sizes = {"b": 3, "m": (4, 3) if op_type == "CDist" else (3, 4)}
    constants = {n: np.ones(size, np.float32) for n, size in sizes.items() if n in inputs}
    made = model_of(nodes, {"x": None}, outputs, constants, domains={"com.microsoft": 1})
    model = made.SerializeToString()
    feeds = {"x": np.full(shape, 0.5, np.float32)}
    got, want = (session(model, nnapi=n).run(["y"], feeds)[0] for n in (True, False))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=CLOSE)


def in_a_loop() -> onnx.ModelProto:
    """Three rounds of: if `on`, state + 1 by way of float, else state.

    The branch reads the state from the body of the loop, which declares it as a scalar.
    """
    then = """then () => (int64 grown) { one = Constant <value_float = 1.0> ()
        real = Cast <to = 1> (state) more = Add (real, one) grown = Cast <to = 7> (more) }"""
    other = "otherwise () => (int64 kept) { kept = Identity (state) }"
    body = f"""body (int64 i, bool go, int64 state) => (bool again, int64 next) {{
        again = Identity (go) next = If (on) <then_branch = {then}, else_branch = {other}> }}"""
    text = f"y = Loop (rounds, , x) <body = {body}>"
    ends = {"x": (np.int64, (1,)), "on": (bool, ())}, {"y": (np.int64, None)}
    return model_of(text, *ends, {"rounds": 3}, opset=16)


@pytest.mark.parametrize("on", [True, False])
def test_what_a_branch_reads_from_outside_may_have_other_sizes(on: bool) -> None:
    model = in_a_loop().SerializeToString()
    feeds = {"x": np.array([4]), "on": np.array(on)}
    (got,), (want,) = (session(model, nnapi=n).run(None, feeds) for n in (True, False))
    assert got.tolist() == want.tolist() == [7 if on else 4]
