"""Operations on constants that have no form in ONNX, and operations without results."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.named_operation import named_operations
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F32, I32
from ep_nnapi.ort_devices.convert import FEATURE_LEVEL, convert, operand_dims
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.folding import folded
from tests.ort_devices.networks import Network

SCORES = [[0.9, 0.1], [0.3, 0.8], [0.2, 0.7]]
"""Of three regions, in a background and a class."""


def sizes(model: Model) -> object:
    return operand_dims(model, named_operations(model, FEATURE_LEVEL))


def fold(model: Model) -> Model:
    return folded(model, named_operations(model, FEATURE_LEVEL), sizes)


def suppressed(net: Network, threshold: float, scores: int | None = None) -> int:
    """BOX_WITH_NMS_LIMIT of three regions of one image; the first of its outputs."""
    regions = [[0, 0, 4, 4] * 2, [8, 8, 12, 12] * 2, [8, 8, 12, 13] * 2]
    if scores is None:
        scores = net.tensor(np.array(SCORES), F32)
    inputs = [scores, net.tensor(np.array(regions), F32), net.tensor(np.zeros(3), I32)]
    inputs += [net.scalar(value) for value in (threshold, -1, 0, 0.4, 1.0, 0.3)]
    kept = (Operand(F32, (0,)), Operand(F32, (0, 4)), Operand(I32, (0,)), Operand(I32, (0,)))
    return net.operation(spec.BOX_WITH_NMS_LIMIT, inputs, *kept)


def pooled(threshold: float) -> Model:
    """The rows of an image for the classes of the regions above a threshold, then convolved."""
    net = Network()
    image = net.add(Operand(F32, (2, 4, 4, 2)))
    first = suppressed(net, threshold)
    taken = net.operation(
        spec.GATHER, [image, net.scalar(0), first + 2], Operand(F32, (0, 4, 4, 2))
    )
    return net.model([image], [first, net.conv(taken, 3, Operand(F32, (0, 4, 4, 3))), first + 2])


@pytest.mark.parametrize(("threshold", "left"), [(0.5, 2), (0.95, 0)])
def test_regions_that_constants_decide(threshold: float, left: int) -> None:
    """One of the regions is suppressed by a better one; of none there is nothing to compute."""
    model = pooled(threshold)
    assert len(fold(model).operations) == left
    runtime = HostRuntime((CpuDevice(threads=1), ReferenceDevice()))
    cpu, reference = runtime.devices()
    assert all(runtime.supported(model, cpu))
    image = np.random.default_rng(1).normal(size=(2, 4, 4, 2)).astype(np.float32)
    ours, expected = (runtime.compile(model, d).run([image]) for d in (cpu, reference))
    assert [r.shape for r in ours] == [(left // 2,), (left // 2, 4, 4, 3), (left // 2,)]
    for got, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-5)


def test_nothing_is_computed_that_depends_on_inputs() -> None:
    net = Network()
    scores = net.add(Operand(F32, (3, 2)))
    first = suppressed(net, 0.5, scores)
    model = net.model([scores], [first])
    assert fold(model) is model
    assert CpuDevice().supported(model) == (False,)


def test_operations_with_a_form_in_onnx_are_left_to_it() -> None:
    net = Network()
    truth = net.tensor(np.array([True, False]), BOOL8)
    model = net.model([], [net.operation(spec.LOGICAL_NOT, [truth], Operand(BOOL8, (2,)))])
    assert fold(model) is model
    assert "Not" in {node.op_type for node in convert(model).proto.graph.node}


def test_large_constants_are_not_read() -> None:
    net = Network()
    keys, rows = np.arange(20_000), np.zeros((20_000, 1))
    inputs = [net.tensor(np.array([3]), I32), net.tensor(keys, I32), net.tensor(rows, F32)]
    outputs = Operand(F32, (1, 1)), Operand(spec.Q8, (1,), scale=1.0)
    first = net.operation(spec.HASHTABLE_LOOKUP, inputs, *outputs)
    model = net.model([], [first, first + 1])
    assert fold(model) is model
