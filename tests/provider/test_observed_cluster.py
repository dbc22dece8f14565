"""A cluster that is observed runs on both providers, and its readers get the CPU provider's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from ep_nnapi.provider.observed_cluster import Observation, ObservedCluster
from tests.faulty import FaultyDevice
from tests.provider.test_compiled_cluster import WANTED, X
from tests.provider.test_planner import CHAIN, plan


def run(device: FaultyDevice) -> tuple[np.ndarray, list[Observation]]:
    (cluster,) = plan(CHAIN, device, fallback="cpu").clusters
    seen: list[Observation] = []
    observed = ObservedCluster(cluster, lambda run: seen.append(_copied(run)))
    assert observed.node_ids == cluster.node_ids
    out = np.zeros_like(X)
    observed.bind(["x"], ["y"])([X], lambda index, shape: out, lambda: None)
    return out, seen


def _copied(run: Observation) -> Observation:
    nodes = onnx.load(run.model, load_external_data=False).graph.node
    assert [n.op_type for n in nodes] == ["Abs", "Neg", "Exp", "Tanh"]
    return replace(run, inputs={n: a.copy() for n, a in run.inputs.items()})


def test_both_outputs_are_observed_and_the_cpus_are_passed_on():
    out, (seen,) = run(FaultyDevice(wrong=0.25))
    np.testing.assert_allclose(out, WANTED, rtol=1e-6)  # exp and tanh
    np.testing.assert_array_equal(seen.cpu["y"], out)
    np.testing.assert_allclose(seen.nnapi["y"], WANTED + 0.25, rtol=1e-6)
    np.testing.assert_array_equal(seen.inputs["x"], X)
    assert seen.report.nodes == ("Abs_a", "Neg_b", "Exp_c", "Tanh_y")
    assert seen.failure is None


def test_a_failure_is_observed_and_no_fallback_hides_it():
    out, (seen,) = run(FaultyDevice(fails_at=frozenset({-1})))
    np.testing.assert_allclose(out, WANTED, rtol=1e-6)
    assert seen.nnapi is None
    assert seen.failure is not None
    assert seen.failure.code == "ANEURALNETWORKS_OP_FAILED"
    assert seen.failure.__traceback__ is None


def test_a_cluster_without_its_onnx_nodes_cannot_be_observed():
    (cluster,) = plan(CHAIN).clusters
    with pytest.raises(ValueError, match="fallback = cpu"):
        ObservedCluster(replace(cluster, cpu=None), lambda run: None).bind(["x"], ["y"])
