"""Tensors of other sizes than the model declares: computed as the CPU provider computes them."""

import numpy as np
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import model_of, serialized

SIZES = (2, 3)


def model(declared: str = "2,3") -> bytes:
    """An If with x or twice x, declared to be as large as x; then two clusters around one node."""
    one, two = (f"b () => (r) {{ r = Concat <axis = 1> ({xs}) }}" for xs in ("x", "x, x"))
    text = f"""(bool c, float[2,3] x) => (float y) <float[{declared}] z> {{
        z = If (c) <then_branch = {one}, else_branch = {two}>
        [first] a = Mul (z, w) [between] b = Erf (a) [second] y = Abs (b) }}"""
    return serialized(text, w=np.float32([3]))


def session(**options: object) -> ort.InferenceSession:
    return nnapi_session(model(), exclude="between", **options)


def feeds(*, first: bool) -> dict[str, np.ndarray]:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SIZES)
    return {"c": np.array(first), "x": x}


@pytest.mark.parametrize("fallback", ["reference", "cpu", "none"])
def test_other_sizes_run_on_the_cpu_provider(fallback: str, caplog: pytest.LogCaptureFixture):
    """Each cluster warns once; runs with the declared sizes stay on the device."""
    plain = session_of(model())
    made = session(fallback=fallback)
    clusters = [c.nodes for c in ep_nnapi.check(model(), exclude="between").clusters]
    assert clusters[-2:] == [("first",), ("second",)]
    for first in (True, False, True, False):
        (got,), (want,) = (s.run(None, feeds(first=first)) for s in (made, plain))
        assert got.shape == want.shape == ((2, 3) if first else (2, 6))
        # the same few float32 operations; erf itself is the CPU provider's in both
        np.testing.assert_allclose(got, want, atol=1e-6)
    warnings = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.compiled_cluster"
    ]
    assert len(warnings) == 2
    assert "first" in warnings[0]
    assert "z has sizes [2, 6], where the model declares [2, 3]" in warnings[0]
    assert "second" in warnings[1]


def test_an_input_declared_as_a_scalar_may_have_any_sizes():
    """ONNX Runtime does not check the rank of such an input."""
    made = model_of("a = Abs (x) y = Neg (a)", {"x": ()}, {"y": None}).SerializeToString()
    ours, plain = nnapi_session(made), session_of(made)
    for x in (np.array(-2.0, np.float32), np.array([1.0, -2.0, 3.0], np.float32)):
        np.testing.assert_array_equal(ours.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
