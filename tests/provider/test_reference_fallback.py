"""The fallback on nnapi-reference: what it computes, and whose fallback it is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ep_nnapi.provider.devices import fallback_device
from ep_nnapi.provider.reference_fallback import is_on_reference, reference_executor
from tests.faulty import FaultyDevice
from tests.provider.test_compiled_cluster import WANTED, X, runner


def test_it_computes_a_clusters_model():
    bound = runner(FaultyDevice())
    cluster = bound.cluster
    found = np.zeros_like(X)
    run = reference_executor(cluster.compiler, cluster.lowered.model, bound.border)
    run([X], lambda *_: found, lambda: None)
    np.testing.assert_allclose(found, WANTED, rtol=1e-6)  # exp and tanh


def test_it_is_that_of_the_host_runtimes_reference_device_only():
    compiler = runner(FaultyDevice()).cluster.compiler
    assert not is_on_reference(compiler)
    runtime, device = fallback_device()
    assert is_on_reference(replace(compiler, runtime=runtime, device=device))
