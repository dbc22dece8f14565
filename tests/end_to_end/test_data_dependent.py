"""Models with data-dependent shapes, computed on the CPU provider: later nodes are taken.

Every answer is compared with the CPU provider's, which computes the same nodes.
"""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.preparation.job import job_of
from ep_nnapi.preparation.pipeline import save_prepared
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import model_of, nodes_of

CLOSE = 1e-5  # both sum the same float32 products in another order
Feeds = dict[str, np.ndarray]
ROWS = 10


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cropped() -> onnx.ModelProto:
    """Crop, whose sizes ONNX does not infer, beside a convolution and before two."""
    text = """[relu] a = Relu (x) [crop] b = Crop <border = [1,1,1,1]> (a)
        [inner] c = Conv (a, u) [add] d = Add (b, c) [first] e = Conv <pads = [1,1,1,1]> (d, v)
        [norm] f = InstanceNormalization (e, s, s) [last] y = Conv (f, w)"""
    shapes = {"u": (3, 3, 3, 3), "v": (8, 3, 3, 3), "s": (8,), "w": (4, 8, 1, 1)}
    weights = {n: drawn(seed, *shape) for seed, (n, shape) in enumerate(shapes.items())}
    # the last opset that ONNX Runtime has Crop in
    return model_of(text, {"x": (1, 3, 12, 9)}, {"y": None}, weights, opset=9)


def scaled() -> onnx.ModelProto:
    """The first steps of what scikit-learn's converter writes: Scaler, then layers."""
    scaling = {"offset": [0.5] * 6, "scale": [2.0] * 6}
    nodes = [
        helper.make_node("Scaler", ["x"], ["a"], "scaler", domain="ai.onnx.ml", **scaling),
        *nodes_of("[first] b = Gemm (a, v) [relu] c = Relu (b) [last] y = Gemm (c, w)"),
    ]
    weights, sizes = {"v": drawn(0, 6, 8), "w": drawn(1, 8, 3)}, {"x": ("rows", 6)}
    return model_of(nodes, sizes, {"y": None}, weights, domains={"ai.onnx.ml": 3})


def found() -> onnx.ModelProto:
    """The rows of x that a mask finds, multiplied."""
    text = """[search] places = NonZero (m) [squeeze] rows = Squeeze (places, zero)
        [gather] a = Gather (x, rows) [multiply] b = MatMul (a, w) [relu] y = Relu (b)"""
    weights = {"w": drawn(0, 8, 4), "zero": np.zeros(1, np.int64)}
    return model_of(text, {"x": (ROWS, 8), "m": (ROWS,)}, {"y": None}, weights)


def met() -> onnx.ModelProto:
    """Two tensors of unknown sizes that meet in a sum; three numbers are reshaped by its size."""
    text = """[left] a = Compress <axis = 0> (x, m) [right] b = Compress <axis = 0> (x, n)
        [relu] c = Relu (a) [add] d = Add (c, b) [shape] sizes = Shape (d)
        [expand] e = Expand (one, sizes) [mul] f = Mul (d, e) [multiply] y = MatMul (f, w)"""
    weights = {"w": drawn(0, 8, 4), "one": np.full(1, 1.5, np.float32)}
    sizes = {"x": (ROWS, 8), "m": (bool, (ROWS,)), "n": (bool, (ROWS,))}
    return model_of(text, sizes, {"y": None}, weights)


def mask(count: int, seed: int) -> np.ndarray:
    """Places of ROWS, as many as `count`."""
    return np.random.default_rng(seed).permutation(ROWS) < count


def masked() -> onnx.ModelProto:
    """Rows that a mask finds, before and after an activation."""
    text = "[abs] a = Abs (x) [mask] b = Compress <axis = 0> (a, m) [relu] y = Relu (b)"
    return model_of(text, {"x": (ROWS, 8), "m": (bool, (ROWS,))}, {"y": None})


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], set[str], Callable[[int], Feeds]]] = {
    "cropped": (cropped, {"crop"}, lambda n: {"x": drawn(n, 1, 3, 12, 9)}),
    "scaled": (scaled, {"scaler"}, lambda n: {"x": drawn(n, n, 6)}),
    "found": (
        found,
        {"search"},
        lambda n: {"x": drawn(n, ROWS, 8), "m": mask(n, n).astype(np.float32)},
    ),
    "masked": (masked, {"mask"}, lambda n: {"x": drawn(n, ROWS, 8), "m": mask(n, n)}),
    "met": (
        met,
        {"left", "right"},
        lambda n: {"x": drawn(n, ROWS, 8), "m": mask(n, 1), "n": mask(n, 2)},
    ),
}
"""By name: the model, the nodes that stay on the CPU provider, feeds for a number of rows."""


def session(made: onnx.ModelProto, **options: object) -> ort.InferenceSession:
    return nnapi_session(made, severity=3, **options)


def cpu(made: onnx.ModelProto) -> ort.InferenceSession:
    return session_of(made.SerializeToString())


def assert_alike(
    ours: ort.InferenceSession, theirs: ort.InferenceSession, feeds: Feeds
) -> tuple[int, ...]:
    """The sizes of the one output, which both compute alike."""
    (got,), (want,) = ours.run(None, feeds), theirs.run(None, feeds)
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= CLOSE * max(1, np.abs(want).max(initial=0))
    return want.shape


@pytest.mark.parametrize("name", CASES)
def test_all_that_follows_is_taken(name: str) -> None:
    build, left, _ = CASES[name]
    report = ep_nnapi.check(build().SerializeToString())
    assert {r.node for r in report.rejections} == left
    assert report.taken == report.nodes - len(left)


@pytest.mark.parametrize("name", CASES)
def test_every_run_is_as_the_cpu_provider_has_it(name: str) -> None:
    """No rows at all, all of them, and sizes that come back."""
    build, _, feeds = CASES[name]
    ours, theirs = session(build()), cpu(build())
    for rows in (3, 1, 7, 0, 3, ROWS, 0):
        assert_alike(ours, theirs, feeds(rows))


def test_no_rows_run_on_the_cpu_provider_and_a_warning_says_so(caplog: pytest.LogCaptureFixture):
    build, _, feeds = CASES["found"]
    ours, theirs = session(build()), cpu(build())
    assert assert_alike(ours, theirs, feeds(4)) == (4, 4)
    assert not caplog.records
    assert assert_alike(ours, theirs, feeds(0)) == (0, 4)
    (warning,) = [r.getMessage() for r in caplog.records]
    assert "run on the CPU provider: SHAPE: places has no elements" in warning


def test_sizes_that_only_sometimes_go_together(caplog: pytest.LogCaptureFixture) -> None:
    """One row is broadcast to five; three rows and five are an error, with the CPU provider too."""
    ours, theirs = session(met()), cpu(met())
    x = drawn(0, ROWS, 8)
    assert_alike(ours, theirs, {"x": x, "m": mask(1, 1), "n": mask(5, 2)})
    wrong = {"x": x, "m": mask(3, 1), "n": mask(5, 2)}
    for made in (ours, theirs):
        with pytest.raises(Exception, match=r"3 by 5|broadcast"):
            made.run(None, wrong)
    assert_alike(ours, theirs, {"x": x, "m": mask(6, 1), "n": mask(6, 2)})


@pytest.mark.parametrize(("name", "left"), [("cropped", {"crop"}), ("masked", {"mask", "relu"})])
def test_what_depends_on_no_run_is_still_compiled_ahead_of_time(name, left, tmp_path):
    """A context has all nodes of known sizes; the others are compiled when they run."""
    build, _, feeds = CASES[name]
    source, out = tmp_path / "model.onnx", tmp_path / "model_ctx.onnx"
    onnx.save(build(), source)
    save_prepared(source, out, job_of({"format": "context", "embed": True}))
    kept = {n.name for n in onnx.load(out).graph.node if n.op_type != "EPContext"}
    assert kept == left
    assert_alike(session(onnx.load(out)), cpu(build()), feeds(5))
