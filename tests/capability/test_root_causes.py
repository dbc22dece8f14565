"""Refusals: which follow from others, which are of one kind, and whose rules would take a node."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import ep_nnapi
from ep_nnapi.errors import Rejection
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.report.report import ClusterReport, Report
from tests.cli.command import saved
from tests.onnx_graph import parsed


def refused(model: Path, **options: object) -> dict[str, Rejection]:
    return {r.node: r for r in ep_nnapi.check(model, **options).rejections}


@pytest.fixture
def doubles(tmp_path: Path) -> Path:
    """A chain of three nodes on float64, between casts."""
    node = helper.make_node
    return saved(
        tmp_path,
        node("Cast", ["x"], ["a"], "to", to=TensorProto.DOUBLE),
        node("Neg", ["a"], ["b"], "first"),
        node("Neg", ["b"], ["c"], "second"),
        node("Sqrt", ["c"], ["d"], "third"),
        node("Cast", ["d"], ["y"], "from", to=TensorProto.FLOAT),
    )


def test_what_reads_a_refused_tensor_follows(doubles: Path):
    """All of the chain from its first node on, for its type is refused at each."""
    found = refused(doubles)
    assert {r.reason for r in found.values()} == {Reason.DTYPE}
    first, *rest = found.values()
    assert first.caused_by == ""
    assert {r.caused_by for r in rest} == {first.node}


def test_another_reason_does_not_follow(tmp_path: Path):
    """Its input is computed by a refused node, but what is refused is its own operator."""
    path = saved(
        tmp_path,
        helper.make_node("Neg", ["x"], ["a"], "one"),
        helper.make_node("RandomNormalLike", ["a"], ["y"], "two"),
    )
    found = refused(path, exclude="one")
    assert {name: r.reason for name, r in found.items()} == {
        "one": Reason.EXCLUDED,
        "two": Reason.OP,
    }
    assert found["two"].caused_by == ""


def test_members_of_a_group_follow_from_its_operator(tmp_path: Path):
    text = """(float[2,3] x) => (float[2,3] y) {
        [q1] a = QuantizeLinear (x, s, z) [d1] b = DequantizeLinear (a, s, z) [relu] c = Relu (b)
        [q2] e = QuantizeLinear (c, s, z) [d2] y = DequantizeLinear (e, s, z) }"""
    save(parsed(text, 21, s=np.float32(0.1), z=np.int8(0)), tmp_path / "m.onnx")
    found = refused(tmp_path / "m.onnx", exclude="relu")
    assert found
    members = [r for r in found.values() if "in the QDQ group of" in r.detail]
    assert all(r.caused_by for r in members)


def test_a_kind_is_the_detail_without_names(doubles: Path):
    found = refused(doubles)
    assert found["first"].kind == found["second"].kind
    assert "*" in found["first"].kind.split()
    assert found["first"].detail != found["second"].detail


def test_rules_that_would_take_the_node_are_named(tmp_path: Path):
    path = saved(
        tmp_path,
        helper.make_node("Erf", ["x"], ["a"], "both"),
        helper.make_node("RandomNormalLike", ["a"], ["y"], "neither"),
    )
    found = refused(path, target="builtin-nnapi")
    assert {name: r.accepted_by for name, r in found.items()} == {"both": "ep-nnapi", "neither": ""}
    assert not [r for r in refused(path).values() if r.accepted_by]


def test_a_report_is_shown_in_a_screenful():
    cluster = ClusterReport(("a" * 300, "b"), ("x",), ("y",), 8, "d", ("Conv", "Relu"))
    left = tuple(Rejection(f"n{i}", f"Op{i}", Reason.OP, "no") for i in range(500))
    shown = repr(Report(8, "ep-nnapi", 1500, 1000, (cluster,) * 500, left))
    assert len(shown.splitlines()) <= 24
    assert max(map(len, shown.splitlines())) <= 170
    assert "NNAPI takes 1000 of 1500 nodes in 500 clusters at feature level 8" in shown
    assert "and 490 more clusters" in shown


def test_a_small_report_is_shown_whole():
    cluster = ClusterReport(("c", "r", "d"), ("x",), ("y",), 8, "d", ("Conv", "Relu", "Conv"))
    left = (Rejection("n", "Mish", Reason.OP, "no"),)
    assert repr(Report(8, "ep-nnapi", 4, 3, (cluster,), left)) == (
        "<Report: NNAPI takes 3 of 4 nodes in 1 cluster at feature level 8, target ep-nnapi\n"
        "  cluster 0: 2 Conv, 1 Relu (c to d)\n"
        "  left to the CPU for OP: 1 Mish>"
    )
