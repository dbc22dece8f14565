"""Choosing what to take: stop operators, small clusters, few clusters; and who spoils a cluster."""

import pytest

import ep_nnapi
from ep_nnapi.costs import Work, work
from tests.end_to_end.test_faults import DIGITS, assert_right, session
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import graph_of
from tests.oracle import Case, f32, node


def clusters(**options: object) -> list[list[str]]:
    """The operators of each cluster of digits: Conv Relu MaxPool, twice, then Reshape Gemm."""
    report = ep_nnapi.check(DIGITS, **options)
    return [[name.split("_")[0].split("/")[0] for name in c.nodes] for c in report.clusters]


def test_stop_ops_take_everything_after_them_along() -> None:
    assert clusters(partitioning_stop_ops="MaxPool") == [["Conv", "Relu"]]
    report = ep_nnapi.check(DIGITS, partitioning_stop_ops=["MaxPool"])
    assert len(report.rejections) == 6
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.CLUSTER}
    assert "partitioning_stop_ops" in report.rejections[0].detail


def test_clusters_below_the_least_size_are_left() -> None:
    assert len(clusters(exclude="MaxPool")) == 3
    assert clusters(exclude="MaxPool", min_cluster_nodes=2) == clusters(exclude="MaxPool")
    assert clusters(exclude="MaxPool", min_cluster_nodes=3) == []
    report = ep_nnapi.check(DIGITS, exclude="MaxPool", min_cluster_nodes=3)
    assert "has 2 nodes, fewer than min_cluster_nodes = 3" in report.rejections[0].detail


def test_few_clusters_are_those_with_the_most_work() -> None:
    """5x5 on 8x8 for 16 channels, and Relu: 26,624; 3x3 on 4x4 from 16 to 32: 73,728 and Relu."""
    assert clusters(exclude="MaxPool", max_clusters=1) == [["Conv", "Relu"]]
    report = ep_nnapi.check(DIGITS, exclude="MaxPool", max_clusters=1)
    assert report.clusters[0].nodes[0] == "Conv_5"
    assert "of 26,624 multiply-accumulates" in report.rejections[0].detail
    assert clusters(exclude="MaxPool", max_clusters=3) == clusters(exclude="MaxPool")


@pytest.mark.parametrize("option", ["min_cluster_nodes", "max_clusters"])
def test_counts_are_1_or_more(option: str) -> None:
    with pytest.raises(ep_nnapi.OptionError, match=f"{option} is 0; it must be 1 or more"):
        ep_nnapi.check(DIGITS, **{option: 0})


def test_a_compilation_that_fails_costs_only_the_nodes_that_spoil_it() -> None:
    with installed(FaultyDevice(fails_on=frozenset({"FULLY_CONNECTED"}))):
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert [r.op_type for r in report.rejections] == ["Gemm"]
    assert report.rejections[0].reason is ep_nnapi.Reason.DRIVER
    assert report.taken == 7


COSTS = {
    "convolution": (node("Conv", f32(1, 8, 6, 6), f32(16, 8, 3, 3)), 16 * 4 * 4 * 8 * 9),
    "depthwise": (node("Conv", f32(1, 8, 6, 6), f32(8, 1, 3, 3), group=8), 8 * 4 * 4 * 9),
    "matrices": (node("MatMul", f32(2, 3, 4), f32(2, 4, 5)), 2 * 3 * 5 * 4),
    "element-wise": (node("Add", f32(2, 3), f32(2, 3)), 6),
}


@pytest.mark.parametrize(("case", "macs"), COSTS.values(), ids=COSTS)
def test_work_counts_multiply_accumulates(case: Case, macs: int) -> None:
    assert work(graph_of(case.model).nodes[0]).macs == macs


def test_work_counts_bytes_of_tensors_and_weights() -> None:
    add = graph_of(node("Add", f32(2, 3), f32(2, 3)).model).nodes[0]
    assert work(add) == Work(6, 3 * 6 * 4)
