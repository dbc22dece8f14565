"""Runs of a compiled cluster, and what runs it after its device has failed."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.provider.compiled_cluster import CompiledCluster, Runner
from tests.faulty import FaultyDevice
from tests.provider.test_planner import CHAIN, SHAPE, plan

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)
WANTED = np.tanh(np.exp(-np.abs(X)))


def runner(device: FaultyDevice, **options: object) -> Runner:
    (cluster,) = plan(CHAIN, device, **options).clusters
    assert isinstance(cluster, CompiledCluster)
    return cluster.bind(["x"], ["y"])


def run(bound: Runner) -> np.ndarray:
    found: dict[int, np.ndarray] = {}

    def allocate(index: int, shape: tuple[int, ...]) -> np.ndarray:
        assert index not in found  # each output once, also if the run is repeated elsewhere
        return found.setdefault(index, np.zeros(shape, np.float32))

    bound([X], allocate, lambda: None)
    return found[0]


@pytest.mark.parametrize("fallback", ["reference", "cpu"])
def test_the_fallback_computes_what_the_device_did_not(
    fallback: str, caplog: pytest.LogCaptureFixture
):
    """From the first failure on, with one warning; the device is not tried again."""
    device = FaultyDevice(fails_at=frozenset({1}))
    bound = runner(device, fallback=fallback)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            np.testing.assert_allclose(run(bound), WANTED, rtol=1e-6)  # exp and tanh
    assert next(device.calls) == 2
    assert bound.cluster.failures.count == 1
    (warning,) = (r.getMessage() for r in caplog.records)
    assert "device faulty failed" in warning
    assert "in the cluster of Abs_a, Neg_b, Exp_c, Tanh_y" in warning
    assert f"fallback={fallback} from now on" in warning


def test_without_a_fallback_every_failure_is_the_runs_error():
    bound = runner(FaultyDevice(fails_at=frozenset({-1})), fallback="none")
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match="OP_FAILED"):
            run(bound)
    assert bound.cluster.failures.count == 2


def test_inputs_that_the_fallback_cannot_compute_either_do_not_cost_the_cluster_its_device(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    device = FaultyDevice(fails_at=frozenset({0}))
    bound = runner(device, fallback="reference")
    impossible = RuntimeFailure("ANeuralNetworksExecution_compute", "OP_FAILED", "index 3 of 3")

    def refuse(*_: object) -> None:
        raise impossible

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "_fallback", lambda *_: (refuse, None))
        with pytest.raises(RuntimeFailure, match="index 3 of 3"):
            run(bound)
    np.testing.assert_allclose(run(bound), WANTED, rtol=1e-6)  # exp and tanh
    assert next(device.calls) == 2
    assert bound.cluster.compiler.health.left_out(device.name) is None
    assert caplog.records == []
