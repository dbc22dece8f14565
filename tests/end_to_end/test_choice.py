"""Choosing what to take: stop operators, small clusters, few clusters; and who spoils a cluster."""

import pytest

import ep_nnapi
from tests.end_to_end.test_faults import DIGITS, assert_right, session
from tests.faulty import FaultyDevice, installed


def clusters(**options: object) -> list[list[str]]:
    """The operators of each cluster of digits: Conv Relu MaxPool, twice, then Reshape Gemm."""
    report = ep_nnapi.check(DIGITS, **options)
    return [[name.split("_")[0].split("/")[0] for name in c.nodes] for c in report.clusters]


def test_stop_ops_take_everything_after_them_along() -> None:
    assert clusters(partitioning_stop_ops="MaxPool") == [["Conv", "Relu"]]
    report = ep_nnapi.check(DIGITS, partitioning_stop_ops=["MaxPool"])
    assert len(report.rejections) == 6
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.EXCLUDED}
    assert "partitioning_stop_ops" in report.rejections[0].detail


def test_clusters_below_the_least_size_are_left() -> None:
    assert len(clusters(exclude="MaxPool")) == 3
    assert clusters(exclude="MaxPool", min_cluster_nodes=2) == clusters(exclude="MaxPool")
    assert clusters(exclude="MaxPool", min_cluster_nodes=3) == []
    report = ep_nnapi.check(DIGITS, exclude="MaxPool", min_cluster_nodes=3)
    assert "has 2 nodes, fewer than min_cluster_nodes = 3" in report.rejections[0].detail


def test_few_clusters_are_those_that_save_most() -> None:
    """5x5 on 8x8 for 16 channels: 25,600 MACs; 3x3 on 4x4 from 16 to 32: 73,728.

    The first costs 500 us for its turn and 64 + 1,024 floats over its border, and saves 4e-5 us for
    each MAC, those of its Relu included.
    """
    assert clusters(exclude="MaxPool", max_clusters=1) == [["Conv", "Relu"]]
    report = ep_nnapi.check(DIGITS, exclude="MaxPool", max_clusters=1)
    assert report.clusters[0].nodes[0] == "Conv_5"
    slower = 500 + 4 * (64 + 1024) * 5e-4 - (25_600 + 1024) * 4e-5
    assert f"its cluster, estimated {slower:.0f} us slower" in report.rejections[0].detail
    assert "is not among the max_clusters = 1 that save most" in report.rejections[0].detail
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


def test_worth_it_leaves_a_tiny_network_to_the_cpu() -> None:
    """8 nodes and 0.1 million multiply-accumulates do not make up for a cluster's 500 us."""
    report = ep_nnapi.check(DIGITS, partitioning="worth_it")
    assert (report.capable, report.taken) == (8, 0)
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.NOT_WORTH_IT}
    (detail,) = {r.detail for r in report.rejections}
    assert detail == (
        "worth_it: taking these 8 nodes by themselves is estimated 496 us slower than the CPU "
        "provider; partitioning=maximal takes them"
    )
    assert_right(session(partitioning="worth_it"))
    assert clusters(partitioning="maximal") == clusters()
