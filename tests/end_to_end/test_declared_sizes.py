"""Tensors of other sizes than the model declares: computed as the CPU provider computes them."""

import logging

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of

SIZES = (2, 3)


def info(name: str, sizes: tuple[int, ...] | None, of: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, of, sizes)


def branch(name: str, times: int) -> onnx.GraphProto:
    node = helper.make_node("Concat", ["x"] * times, [name], axis=1)
    return helper.make_graph([node], name, [], [info(name, None)])


def model(declared: tuple[int, ...] | None = SIZES) -> bytes:
    """An If with x or twice x, declared to be as large as x; then two clusters around one node."""
    nodes = [
        helper.make_node(
            "If", ["c"], ["z"], then_branch=branch("one", 1), else_branch=branch("two", 2)
        ),
        helper.make_node("Mul", ["z", "w"], ["a"], "first"),
        helper.make_node("Erf", ["a"], ["b"], "between"),
        helper.make_node("Abs", ["b"], ["y"], "second"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("c", (), TensorProto.BOOL), info("x", SIZES)],
        [info("y", None)],
        [helper.make_tensor("w", TensorProto.FLOAT, (1,), [3.0])],
        value_info=[info("z", declared)],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def session(**options: object) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    ep_nnapi.append_execution_provider(chosen, exclude="between", **options)
    return ort.InferenceSession(model(), chosen)


def feeds(*, first: bool) -> dict[str, np.ndarray]:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SIZES)
    return {"c": np.array(first), "x": x}


@pytest.mark.parametrize("fallback", ["reference", "cpu", "none"])
def test_other_sizes_run_on_the_cpu_provider(
    fallback: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each cluster warns once; runs with the declared sizes stay on the device."""
    plain = session_of(model())
    made = session(fallback=fallback)
    clusters = [c.nodes for c in ep_nnapi.check(model(), exclude="between").clusters]
    assert clusters[-2:] == [("first",), ("second",)]
    with caplog.at_level(logging.WARNING):
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
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info("x", ())], [info("y", None)])
    opsets = [helper.make_opsetid("", 17)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    chosen = ort.SessionOptions()
    ep_nnapi.append_execution_provider(chosen)
    ours, plain = ort.InferenceSession(made, chosen), session_of(made)
    for x in (np.array(-2.0, np.float32), np.array([1.0, -2.0, 3.0], np.float32)):
        np.testing.assert_array_equal(ours.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
