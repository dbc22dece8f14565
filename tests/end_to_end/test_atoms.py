"""Nodes that are never separated, and nodes that are never taken to be independent.

A QDQ group is one node; constants belong to whoever reads them; what a body of If or Loop reads
from around it is read by the If or Loop.
"""

from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import ep_nnapi
from ep_nnapi.quantization.propagate import propagate_quantization
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from models.quantized import SCHEMES
from tests.end_to_end.quantized import Qdq, stored
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import graph_of
from tests.ort.models import graph, model, node, tensor

CPU = "CPUExecutionProvider"
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def same(data: bytes, feeds: dict[str, np.ndarray], **options: object) -> None:
    """A session on NNAPI computes what one on the CPU provider does, to the bit."""
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 4
    ep_nnapi.append_execution_provider(chosen, **options)
    got = ort.InferenceSession(data, chosen).run(None, feeds)
    want = session_of(data).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def together(report: ep_nnapi.Report, *names: str) -> bool:
    """True if nodes are in one cluster."""
    return any(set(names) <= set(c.nodes) for c in report.clusters)


# QDQ groups ----------------------------------------------------------------------------------


@cache
def digits(scheme: str) -> onnx.ModelProto:
    """The quantized digits as ONNX Runtime shows them: saved after basic optimization."""
    return zoo.quantized("digits", scheme)


@pytest.mark.parametrize("every", [0, 2, 3, 5])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_group_is_taken_or_left_as_a_whole(scheme: str, every: int) -> None:
    """Whatever the device declines; a group's members are those of the graph it is judged by."""
    proto = digits(scheme)
    with installed(FaultyDevice(every=every)):
        report = ep_nnapi.check(proto.SerializeToString())
    groups = [{p.name for p in n.originals} for n in propagate_quantization(graph_of(proto)).nodes]
    large = [g for g in groups if len(g) > 1]
    assert large
    left = {r.node for r in report.rejections}
    for group in large:
        inside = [c for c in report.clusters if group & set(c.nodes)]
        assert len(inside) <= 1
        assert all(group <= set(c.nodes) for c in inside) or group <= left
    assert sum(len(c.nodes) for c in report.clusters) + len(left) == report.nodes


@pytest.mark.parametrize("options", [{"exclude": "Relu"}, {"partitioning_stop_ops": "Relu"}])
def test_a_group_that_is_left_is_left_as_a_whole(options: dict[str, object]) -> None:
    """Two groups in a row, the second with an activation that is named."""
    q = Qdq()
    x = q.input((1, 4), (0.1, 100))
    first = q.group("Add", [x, x], (0.2, 100))
    last = q.group("Mul", [first, first], (0.3, 100), activation=("Relu", ()))
    proto = q.model(last)
    report = ep_nnapi.check(proto.SerializeToString(), **options)
    taken = [set(c.nodes) for c in report.clusters]
    sizes = sorted(len(n.originals) for n in propagate_quantization(graph_of(proto)).nodes)
    assert sizes == [4, 5]
    assert [len(c) for c in taken] == [4]
    same(proto.SerializeToString(), stored(proto), **options)


# constants -----------------------------------------------------------------------------------


def test_a_constant_is_part_of_each_cluster_that_reads_it() -> None:
    """Both read w, and nothing flows between them: no border, and no reason to be one cluster."""
    w = np.full((2, 3), 3, np.float32)
    nodes = [node("Add", "x w", "y", name="Add"), node("Mul", "z w", "v", name="Mul")]
    data = model(nodes, [tensor("x"), tensor("z")], [tensor("y"), tensor("v")], {"w": w})
    report = ep_nnapi.check(data)
    assert [(c.nodes, c.inputs, c.boundary_bytes) for c in report.clusters] == [
        (("Add",), ("x",), 48),
        (("Mul",), ("z",), 48),
    ]
    same(data, {"x": X, "z": X})


@pytest.mark.parametrize("left", ["MatMul", "Tanh"])
def test_what_is_dequantized_from_constants_goes_with_its_reader(left: str) -> None:
    """A chain of no input of its own does not drift into another cluster, nor makes one."""
    q = Qdq()
    weights = q.weights(np.arange(6, dtype=np.uint8).reshape(3, 2), 0.1)
    nodes = [
        node("Tanh", "x", "t", name="Tanh"),
        *q.nodes,
        node("MatMul", f"t {weights}", "y", name="MatMul"),
    ]
    constants = {t.name: numpy_helper.to_array(t) for t in q.tensors}
    data = model(nodes, [tensor("x")], [tensor("y", (2, 2))], constants)
    report = ep_nnapi.check(data, exclude=left)
    (dequantize,) = (n.name for n in q.nodes)
    assert together(report, dequantize, "MatMul") == (left != "MatMul")
    assert len(report.clusters) == 1
    assert all(weights not in (*c.inputs, *c.outputs) for c in report.clusters)


# control flow --------------------------------------------------------------------------------


def conditional(reads: str) -> bytes:
    """x -Abs-> a -Neg-> b -Add-> y, and Add reads what an If computes from its surroundings."""
    then = graph([node("Relu", reads, "r")], [], [tensor("r")], name="t")
    other = graph([node("Abs", reads, "r")], [], [tensor("r")], name="e")
    nodes = [
        node("Abs", "x", "a", name="Abs"),
        node("Neg", "a", "b", name="Neg"),
        node("If", "c", "i", name="If", then_branch=then, else_branch=other),
        node("Add", "b i", "y", name="Add"),
    ]
    return model(nodes, [tensor("x"), tensor("c", (), bool)], [tensor("y")])


def test_what_a_branch_reads_from_around_it_comes_before_it() -> None:
    """As one cluster Abs, Neg and Add would wait for the If, which waits for Abs."""
    report = ep_nnapi.check(conditional("a"))
    assert not together(report, "Abs", "Add")
    assert {n for c in report.clusters for n in c.nodes} >= {"Abs", "Neg", "Add"}
    (first,) = [c for c in report.clusters if "Abs" in c.nodes]
    assert "a" in first.outputs  # the branches read it, and nothing else outside
    for condition in (True, False):
        same(conditional("a"), {"x": X, "c": np.array(condition)})


def test_a_branch_that_reads_nothing_of_them_keeps_nothing_apart() -> None:
    report = ep_nnapi.check(conditional("x"))
    assert together(report, "Abs", "Neg", "Add")
    for condition in (True, False):
        same(conditional("x"), {"x": X, "c": np.array(condition)})


def looped(reads: str) -> bytes:
    """The same around a Loop, which adds `reads` to its variable each time."""
    body = graph(
        [node("Add", f"v {reads}", "v2"), node("Identity", "go", "go2")],
        [tensor("i", (), np.int64), tensor("go", (), bool), tensor("v")],
        [tensor("go2", (), bool), tensor("v2")],
    )
    nodes = [
        node("Abs", "x", "a", name="Abs"),
        node("Neg", "a", "b", name="Neg"),
        node("Loop", "n - x", "l", name="Loop", body=body),
        node("Add", "b l", "y", name="Add"),
    ]
    inputs = [tensor("n", (), np.int64), tensor("x")]
    made = onnx.ModelProto.FromString(model(nodes, inputs, [tensor("y")]))
    made.graph.value_info.append(tensor("l"))  # what a Loop computes may have any shape
    return made.SerializeToString()


@pytest.mark.parametrize(("reads", "apart"), [("a", True), ("x", False)])
def test_what_a_loop_reads_from_around_it_comes_before_it(reads: str, apart: bool) -> None:
    report = ep_nnapi.check(looped(reads))
    assert together(report, "Abs", "Add") != apart
    same(looped(reads), {"x": X, "n": np.array(3)})


def test_what_a_branch_in_a_branch_reads_comes_before_the_outer_one() -> None:
    """Only the inner If reads a."""
    deep = graph([node("Relu", "a", "r")], [], [tensor("r")], name="deep")
    flat = graph([node("Abs", "x", "r")], [], [tensor("r")], name="flat")
    inner = node("If", "c", "r", name="Inner", then_branch=deep, else_branch=flat)
    outer = graph([inner], [], [tensor("r")], name="outer")
    other = graph([node("Abs", "x", "r")], [], [tensor("r")], name="other")
    nodes = [
        node("Abs", "x", "a", name="Abs"),
        node("Neg", "a", "b", name="Neg"),
        node("If", "c", "i", name="If", then_branch=outer, else_branch=other),
        node("Add", "b i", "y", name="Add"),
    ]
    data = model(nodes, [tensor("x"), tensor("c", (), bool)], [tensor("y")])
    assert not together(ep_nnapi.check(data), "Abs", "Add")
    same(data, {"x": X, "c": np.array(True)})
