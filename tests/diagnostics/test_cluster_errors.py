"""Errors of clusters by themselves: merged over runs, in run order, of parts of a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.diagnostics.cluster_errors import cluster_errors, errors_of_parts
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.options import parse
from tests import wrong_device
from tests.provider.test_planner import SHAPE, model
from tests.runtimes import host_only

pytestmark = host_only  # the device with a defect is one of the host runtime in this process

MODEL = model("Abs x -> a", "Neg a -> b", "Tanh b -> c", "Exp c -> y")
NODES = ("Abs_a", "Neg_b", "Tanh_c", "Exp_y")
RUNS = Feeds(tuple({"x": np.full(SHAPE, f, np.float32)} for f in (0.0, 0.25, 1.0)))


def test_clusters_are_in_run_order_and_measured_over_all_runs():
    steps: list[int] = []
    found = cluster_errors(
        MODEL.SerializeToString(),
        RUNS,
        parse({"exclude": "Tanh"}),
        advance=lambda: steps.append(0),
    )
    assert [c.report.nodes for c in found] == [("Abs_a", "Neg_b"), ("Exp_y",)]
    assert len(steps) == 2 * 3
    assert [c.whole.elements for c in found] == [3 * 6, 3 * 6]
    assert not any(c.negative for c in found)


def test_one_wrong_run_is_enough():
    """A product with 0 hides the defect in the first run: later ones decide."""
    with wrong_device.installed(wrong_device.of_node("Neg_b")):
        (found,) = cluster_errors(MODEL.SerializeToString(), RUNS, parse({}))
    assert found.negative
    assert found.verdict.worst > 0
    assert found.failure is None


@pytest.mark.parametrize(("size", "parts"), [(1, [NODES[1:2], NODES[2:3]]), (2, [NODES[1:3]])])
def test_parts_of_a_cluster(size: int, parts: list[tuple[str, ...]]):
    nodes = [("Abs_a", ""), ("Neg_b", "Neg"), ("Tanh_c", "Tanh"), ("Exp_y", "")]
    found = errors_of_parts(MODEL.SerializeToString(), RUNS, parse({}), nodes, size)
    assert [c.report.nodes for c in found] == parts


def test_names_with_commas_and_names_of_operators_do_not_mislead():
    """`exclude` takes operator types too: a node left out that is called Neg leaves Neg in."""
    named = model("Abs x -> a", "Neg a -> b", "Tanh b -> y")
    named.graph.node[0].name = "Neg"
    named.graph.node[2].name = "a,b"
    nodes = [("Neg", ""), ("Neg_b", "Neg"), ("a,b", "")]
    found = errors_of_parts(named.SerializeToString(), RUNS, parse({}), nodes, 1)
    assert [c.report.nodes for c in found] == [("Neg_b",)]
