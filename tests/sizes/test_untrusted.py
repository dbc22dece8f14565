"""Declared sizes of intermediates are not trusted where they cannot be right."""

from functools import partial

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from tests.onnx_graph import parsed

CLOSE = 1e-6  # both add the same few float32 numbers
SIZES = (1, 4, 6, 5)
X = np.random.default_rng(6).standard_normal(SIZES).astype(np.float32)
LAYERS = {
    "MeanVarianceNormalization": (13, ["x"], {}, TensorProto.FLOAT),
    "GroupNormalization": (21, ["x", "s", "s"], {"num_groups": 2}, TensorProto.FLOAT),
    "LessOrEqual": (12, ["x", "s"], {}, TensorProto.BOOL),
}
"""Operators that ONNX infers no sizes of: opset, inputs, attributes and what they compute."""


def declaring(op_type: str, sizes: tuple[int, ...]) -> bytes:
    """x [1, 4, 6, 5] -> that layer -> c, declared to have these sizes -> Cast, Sigmoid -> y."""
    opset, inputs, attributes, kind = LAYERS[op_type]
    nodes = [
        helper.make_node(op_type, inputs, ["c"], "layer", **attributes),
        helper.make_node("Cast", ["c"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["f"], ["y"], "sigmoid"),
    ]
    shape = (4,) if opset == 21 else (1,)
    constants = [numpy_helper.from_array(np.ones(shape, np.float32), "s")] if "s" in inputs else []
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SIZES)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    declared = [helper.make_tensor_value_info("c", kind, sizes)]
    graph = helper.make_graph(nodes, "g", [x], [y], constants, value_info=declared)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return made.SerializeToString()


def session(model: bytes, *, nnapi: bool, **options: str) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 4
    if nnapi:
        ep_nnapi.append_execution_provider(chosen, **options)
    return ort.InferenceSession(model, chosen)


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
    nodes = [
        helper.make_node(op_type, inputs, ["d"], "decided", **attributes),
        helper.make_node("Cast", ["d"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["f"], ["y"], "sigmoid"),
    ]
    kind = TensorProto.INT64 if op_type == "NonZero" else TensorProto.FLOAT
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    sizes = [helper.make_tensor_value_info("d", kind, declared)]
    graph = helper.make_graph(nodes, "g", given, [y], value_info=sizes)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (got,), (want,) = (
        session(made.SerializeToString(), nnapi=n).run(None, feeds) for n in (True, False)
    )
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=CLOSE)


def test_slopes_may_be_larger_than_the_tensor() -> None:
    """ONNX Runtime computes what ONNX does not allow, and infers the tensor's sizes for it."""
    text = "(float[1,4,6,5] x) => (y) { [prelu] p = PRelu (x, s) [sigmoid] y = Sigmoid (p) }"
    slopes = np.linspace(-1, 1, 3, dtype=np.float32)[:, None, None, None]
    model = parsed(text, 16, s=slopes).SerializeToString()
    (refused,) = ep_nnapi.check(model).rejections
    assert (refused.node, refused.reason) == ("prelu", "SHAPE")
    ours = run(model, nnapi=True)
    assert ours.shape == (3, 4, 6, 5)
    np.testing.assert_allclose(ours, run(model, nnapi=False), atol=CLOSE)


def test_empty_axes_squeeze_all_dimensions_of_1() -> None:
    """As ONNX Runtime computes; ONNX infers that none goes."""
    text = "(float[1,4,6,5] x) => (y) { [squeeze] s = Squeeze (x, axes) [sigmoid] y = Sigmoid (s) }"
    model = parsed(text, 16, axes=np.zeros(0, np.int64)).SerializeToString()
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
    nodes = [
        helper.make_node(op_type, inputs, ["c"], "first", domain="com.microsoft"),
        helper.make_node("Sigmoid", ["c"], ["y"], "sigmoid"),
    ]
    x, c, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xcy")
    c = helper.make_tensor_value_info("c", TensorProto.FLOAT, (5, 7))
    sizes = {"b": 3, "m": (4, 3) if op_type == "CDist" else (3, 4)}
    constants = [
        numpy_helper.from_array(np.ones(size, np.float32), name)
        for name, size in sizes.items()
        if name in inputs
    ]
    graph = helper.make_graph(nodes, "g", [x], [c, y], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    feeds = {"x": np.full(shape, 0.5, np.float32)}
    got, want = (session(model, nnapi=n).run(["y"], feeds)[0] for n in (True, False))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=CLOSE)


def in_a_loop() -> onnx.ModelProto:
    """Three rounds of: if `on`, state + 1 by way of float, else state.

    The branch reads the state from the body of the loop, which declares it as a scalar.
    """
    scalar = partial(helper.make_tensor_value_info, elem_type=TensorProto.INT64, shape=[])
    flag = partial(helper.make_tensor_value_info, elem_type=TensorProto.BOOL, shape=[])
    nodes = [
        helper.make_node("Cast", ["state"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["real", "one"], ["more"]),
        helper.make_node("Cast", ["more"], ["grown"], to=TensorProto.INT64),
    ]
    one = numpy_helper.from_array(np.float32(1), "one")
    then = helper.make_graph(nodes, "then", [], [scalar("grown")], [one])
    same = [helper.make_node("Identity", ["state"], ["kept"])]
    otherwise = helper.make_graph(same, "otherwise", [], [scalar("kept")])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("If", ["on"], ["next"], then_branch=then, else_branch=otherwise),
        ],
        "body",
        [scalar("i"), flag("go"), scalar("state")],
        [flag("again"), scalar("next")],
    )
    loop = helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)
    rounds = numpy_helper.from_array(np.array(3), "rounds")
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in (("x", [1]), ("y", None))
    )
    graph = helper.make_graph([loop], "g", [x, flag("on")], [y], [rounds])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


@pytest.mark.parametrize("on", [True, False])
def test_what_a_branch_reads_from_outside_may_have_other_sizes(on: bool) -> None:
    model = in_a_loop().SerializeToString()
    feeds = {"x": np.array([4]), "on": np.array(on)}
    (got,), (want,) = (session(model, nnapi=n).run(None, feeds) for n in (True, False))
    assert got.tolist() == want.tolist() == [7 if on else 4]
