"""Sessions on one provider: runs, and what is refused."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices.plugin_session import narrow, open_on_provider
from ep_nnapi.ort_devices.scope import Inexpressible
from ep_nnapi.sessions.device_session import Threads
from tests.ort_devices.networks import Network


def provider() -> onnxruntime.OrtEpDevice:
    """ONNX Runtime's CPU provider, as it lists those of plugin libraries."""
    return next(d for d in onnxruntime.get_ep_devices() if d.ep_name == "CPUExecutionProvider")


def test_a_model_runs() -> None:
    net = Network()
    x = net.add(Operand(F32, (3,)))
    model = net.model([x], [net.operation(spec.ABS, [x], Operand(F32, (3,)))])
    found = open_on_provider(model, provider(), Threads(1))
    (result,) = found.execute([np.array([-1, 0, 2], np.float32)], (), RunOptions())
    assert result.tolist() == [1.0, 0.0, 2.0]


def test_large_weights_are_given_apart() -> None:
    net = Network()
    x = net.add(Operand(F32, (1, 600)))
    weights = net.tensor(np.ones((2, 600)), F32)
    bias = net.tensor(np.array([0.5, -0.5]), F32)
    y = net.operation(spec.FULLY_CONNECTED, [x, weights, bias, net.scalar(0)], Operand(F32, (1, 2)))
    found = open_on_provider(net.model([x], [y]), provider(), Threads())
    (result,) = found.execute([np.ones((1, 600), np.float32)], (), RunOptions())
    assert result.tolist() == [[600.5, 599.5]]


def test_what_has_no_onnx_form_is_refused() -> None:
    net = Network()
    x = net.add(Operand(F32, (0, 3)))
    model = net.model([x], [net.operation(spec.RELU, [x], Operand(F32, (0, 3)))])
    with pytest.raises(Inexpressible, match="the shape of operand 0 is unknown"):
        open_on_provider(model, provider(), Threads())


@pytest.mark.parametrize(("inputs", "nodes"), [(7, 1), (8, 2), (13, 2), (14, 3), (20, 4)])
def test_concats_of_many_inputs_are_divided(inputs: int, nodes: int) -> None:
    names = [f"x{i}" for i in range(inputs)]
    concat = helper.make_node("Concat", names, ["y"], axis=0)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in names]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2 * inputs])
    graph = helper.make_graph([concat], "g", given, [y])
    narrow(graph)
    assert len(graph.node) == nodes
    assert max(len(node.input) for node in graph.node) <= 7
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    feeds = {n: np.array([i, -i], np.float32) for i, n in enumerate(names)}
    (found,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_array_equal(found, np.concatenate([*feeds.values()]))


@pytest.mark.parametrize(("outputs", "nodes"), [(7, 1), (8, 32)])
def test_splits_into_many_parts_are_slices(outputs: int, nodes: int) -> None:
    """Each with three constants."""
    names = [f"y{i}" for i in range(outputs)]
    sizes = np.array([1, 2] + [1] * (outputs - 2), np.int64)
    split = helper.make_node("Split", ["x", "sizes"], names, axis=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, int(sizes.sum())])
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
    constant = numpy_helper.from_array(sizes, "sizes")
    graph = helper.make_graph([split], "g", [x], given, [constant])
    narrow(graph)
    assert len(graph.node) == nodes
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    array = np.arange(sizes.sum(), dtype=np.float32).reshape(1, -1)
    found = ReferenceEvaluator(model).run(None, {"x": array})
    for part, wanted in zip(found, np.split(array, np.cumsum(sizes)[:-1], axis=1), strict=True):
        np.testing.assert_array_equal(part, wanted)
