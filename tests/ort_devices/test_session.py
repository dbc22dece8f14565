"""Sessions for converted models: types of weights, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions, Spin
from ep_nnapi.nnapi.spec import F32, I32
from ep_nnapi.ort_devices import session
from ep_nnapi.ort_devices.scope import Inexpressible
from ep_nnapi.ort_devices.session import kernels, open_model, threads_of
from ep_nnapi.sessions.cpu import saturates, session_of
from ep_nnapi.sessions.device_session import SPIN_ALWAYS, SPIN_IN_RUNS, SPIN_NEVER, Threads
from tests.ort.models import model, node, tensor
from tests.ort_devices.networks import Network, chain, feed


def test_weights_are_int8_only_where_their_products_do_not_saturate():
    assert kernels(None).int8_weights is not saturates()
    assert kernels(True).int8_weights
    assert not kernels(False).int8_weights


def test_a_session_gives_the_references_results():
    model = chain()
    (ours,) = open_model(model, None, Threads(1)).execute(feed(model), (), RunOptions())
    reference = ReferenceDevice().prepare(model, CompileOptions())
    (theirs,) = reference.execute(feed(model), (), RunOptions())
    np.testing.assert_allclose(ours, theirs, 0, 1e-5)  # sums of 36 products in another order


def test_threads_are_those_asked_for(monkeypatch: pytest.MonkeyPatch):
    asked: list[Threads] = []
    monkeypatch.setattr(session, "open_session", lambda _, threads: asked.append(threads))
    open_model(chain(), None, Threads(2, SPIN_NEVER))
    assert [threads.count for threads in asked] == [2]
    assert asked[0].settings[: len(SPIN_NEVER)] == SPIN_NEVER


def test_sums_and_layer_normalizations_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime reads the setting by its name; without it the two are one node."""
    asked: list[Threads] = []
    monkeypatch.setattr(session, "open_session", lambda _, threads: asked.append(threads))
    open_model(chain(), None, Threads(1, ()))
    nodes = [node("Add", "x x", "a"), node("LayerNormalization", "a s s", "y")]
    ends = [tensor("x", (1, 4, 8))], [tensor("y", (1, 4, 8))]
    content = model(nodes, *ends, {"s": np.ones(8, np.float32)})
    for settings, expected in ((asked[0].settings, ["Add", "LayerNormalization"]), ((), [_SKIP])):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        options.log_severity_level = 4
        for entry in settings:
            options.add_session_config_entry(*entry)
        session_of(content, options)
        graph = onnx.load(tmp_path / "optimized.onnx").graph
        assert [n.op_type for n in graph.node] == expected


_SKIP = "SkipLayerNormalization"


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        (CompileOptions(), Threads(3, SPIN_IN_RUNS)),
        (CompileOptions(threads=2, spin=Spin.ALWAYS), Threads(2, SPIN_ALWAYS)),
        (CompileOptions(spin=Spin.NEVER), Threads(3, SPIN_NEVER)),
    ],
)
def test_threads_are_those_of_the_compilation(options: CompileOptions, threads: Threads):
    assert threads_of(options, 3) == threads


def test_models_of_other_operations_are_refused():
    net = Network()
    x = net.add(Operand(F32, (1, 3)))
    seeds = net.tensor(np.array([1, 2]), I32)
    y = net.operation(spec.RANDOM_MULTINOMIAL, [x, net.scalar(2), seeds], Operand(I32, (1, 2)))
    with pytest.raises(Inexpressible, match=f"of {OperandCode.TENSOR_FLOAT32.name}"):
        open_model(net.model([x], [y]), None, Threads(1))


def test_an_output_may_be_a_factor_of_a_product_with_transposed_weights() -> None:
    """ONNX Runtime 1.32 creates no session for it if the output is an Identity of the factor."""
    net = Network()
    a, b, c = (net.add(Operand(F32, shape)) for shape in ((2, 3), (3, 4), (4,)))
    none = net.scalar(0)
    y = net.operation(spec.ADD, [a, a, none], Operand(F32, (2, 3)))
    order = net.tensor(np.array([1, 0]), I32)
    across = net.operation(spec.TRANSPOSE, [b, order], Operand(F32, (4, 3)))
    z = net.operation(spec.FULLY_CONNECTED, [y, across, c, none], Operand(F32, (2, 4)))
    x, w, bias = (np.arange(n, dtype=np.float32) for n in (6, 12, 4))
    x, w = x.reshape(2, 3), w.reshape(3, 4)
    prepared = open_model(net.model([a, b, c], [y, z]), None, Threads(1))
    results = prepared.execute((x, w, bias), (), RunOptions())
    for result, expected in zip(results, (2 * x, 2 * x @ w + bias), strict=True):
        np.testing.assert_array_equal(result, expected)  # whole numbers below 2^24
