"""Lowering and compilation for one device: what it declines, and for which cause."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.capability.graph import judge_graph
from ep_nnapi.capability.progress import Progress
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.options import Options
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.declined import Declined
from ep_nnapi.target import Target
from tests.faulty import FaultyDevice
from tests.onnx_graph import graph_of
from tests.provider.test_planner import CHAIN, SHAPE


def compiler(device: FaultyDevice) -> Compiler:
    runtime = HostRuntime([device])
    return Compiler(Target(8), runtime, runtime.devices()[0])


def lowered(device: FaultyDevice):
    graph = graph_of(CHAIN)
    verdicts = judge_graph(graph, Target(8), Options(), Progress(lambda: 0.0))
    members = [verdicts.samples[0][n.id] for n in graph.nodes]
    return compiler(device).lower(members, graph.inputs, graph.outputs)


def test_a_cluster_is_one_model_that_runs():
    device = FaultyDevice()
    model = lowered(device)
    assert [op.spec.name for op in model.model.operations] == ["ABS", "NEG", "EXP", "TANH"]
    x = np.ones(SHAPE, np.float32)
    (y,) = compiler(device).compile(model).compilation.run([x])
    np.testing.assert_allclose(y, np.tanh(np.exp(-np.abs(x))), rtol=1e-6)  # two functions


def test_declined_operations_name_their_nodes():
    with pytest.raises(Declined) as caught:
        lowered(FaultyDevice(declines=frozenset({"EXP", "TANH"})))
    assert caught.value.names == {"Exp_c", "Tanh_y"}
    assert caught.value.reason is Reason.DRIVER
    assert caught.value.detail == "faulty declines EXP, TANH"
    assert not caught.value.too_large


def test_a_prepared_model_is_checked_again():
    model = lowered(FaultyDevice())
    compiler(FaultyDevice()).check_supported(model)
    with pytest.raises(Declined, match="faulty declines NEG"):
        compiler(FaultyDevice(declines=frozenset({"NEG"}))).check_supported(model)
