"""Loops on host-cpu whose tensors grow, against the reference device."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8
from ep_nnapi.ort_devices.convert import obstacles
from ep_nnapi.ort_devices.device import CpuDevice
from tests.ort_devices.networks import Network

RUNTIME = HostRuntime((ReferenceDevice(), CpuDevice(threads=1)))
REFERENCE, HOST_CPU = RUNTIME.devices()
COUNT = Operand(I32, (1,))


def operand(code: OperandCode, *dims: int) -> Operand:
    return Operand(code, dims, **({"scale": 0.5, "zero_point": 7} if code is Q8 else {}))


def condition(tensor: Operand) -> Model:
    """The inputs are a tensor, the rounds done and their limit: true below the limit."""
    net = Network()
    _, done, limit = (net.add(each) for each in (tensor, COUNT, COUNT))
    return net.model(
        [0, done, limit], [net.operation(spec.LESS, [done, limit], Operand(BOOL8, (1,)))]
    )


def body(tensor: Operand, more: list[int]) -> Model:
    """Concatenates the tensor with itself along each of the axes, and counts the rounds."""
    net = Network()
    x, done, limit = (net.add(each) for each in (tensor, COUNT, COUNT))
    y = x
    for axis in more:
        y = net.operation(
            spec.CONCATENATION, [y, x if axis == more[0] else y, net.scalar(axis)], tensor
        )
    one = net.tensor(np.array([1]), I32)
    counted = net.operation(spec.ADD, [done, one, net.scalar(0)], COUNT)
    return net.model([x, done, limit], [y, counted])


def growing(inner: Operand, outer: Operand, given: Operand, axes: tuple[int, ...] = (1,)) -> Model:
    """A loop; `given` enters it, the inner models declare `inner`, the result is `outer`."""
    net = Network()
    models = [
        net.add(Operand(OperandCode.MODEL, value=m))
        for m in (condition(inner), body(inner, list(axes)))
    ]
    x, limit = net.add(given), net.add(COUNT)
    none = net.tensor(np.array([0]), I32)
    y = net.operation(spec.WHILE, [*models, x, none, limit], outer, COUNT)
    return net.model([x, limit], [y])


@pytest.mark.parametrize("code", [F32, Q8], ids=str)
@pytest.mark.parametrize("inner", [(2, 0), ()], ids=["unknown size", "unknown rank"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_tensors_may_grow_in_a_loop(code, inner, rounds):
    model = growing(operand(code, *inner), operand(code, 2, 0), operand(code, 2, 3))
    assert all(RUNTIME.supported(model, HOST_CPU))
    x = np.arange(6, dtype=code.numpy).reshape(2, 3)
    given = [x, np.array([rounds], np.int32)]
    ours, theirs = (RUNTIME.compile(model, d).run(given)[0] for d in (HOST_CPU, REFERENCE))
    assert ours.shape == (2, 3 * 2**rounds)
    np.testing.assert_array_equal(ours, theirs)


def test_several_sizes_may_grow():
    model = growing(operand(F32, 0, 0), operand(F32, 0, 0), operand(F32, 2, 3), axes=(0, 1))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = [x, np.array([2], np.int32)]
    ours, theirs = (RUNTIME.compile(model, d).run(given)[0] for d in (HOST_CPU, REFERENCE))
    assert ours.shape == (8, 12)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("rounds", "right"), [(0, False), (1, True), (2, False)])
def test_a_result_of_another_size_than_declared_fails(rounds, right):
    compiled = RUNTIME.compile(
        growing(operand(F32, 2, 0), operand(F32, 2, 6), operand(F32, 2, 3)), HOST_CPU
    )
    given = [np.zeros((2, 3), np.float32), np.array([rounds], np.int32)]
    if right:
        assert compiled.run(given)[0].shape == (2, 6)
    else:
        with pytest.raises(RuntimeFailure, match="OP_FAILED"):
            compiled.run(given)


def test_two_growing_sizes_of_a_declared_result_are_declined():
    """The number of elements would not tell if a run has them."""
    model = growing(operand(F32, 0, 0), operand(F32, 4, 6), operand(F32, 2, 3), axes=(0, 1))
    assert obstacles(model) == ("a tensor changes several of its sizes in the loop",)


def test_a_tensor_that_changes_its_rank_is_declined():
    net = Network()
    unknown = Operand(F32, ())
    x, done, limit = (net.add(each) for each in (unknown, COUNT, COUNT))
    y = net.operation(spec.EXPAND_DIMS, [x, net.scalar(0)], unknown)
    one = net.tensor(np.array([1]), I32)
    counted = net.operation(spec.ADD, [done, one, net.scalar(0)], COUNT)
    outer = Network()
    models = [
        outer.add(Operand(OperandCode.MODEL, value=m))
        for m in (condition(unknown), net.model([x, done, limit], [y, counted]))
    ]
    start, most = outer.add(operand(F32, 2, 3)), outer.add(COUNT)
    none = outer.tensor(np.array([0]), I32)
    z = outer.operation(spec.WHILE, [*models, start, none, most], unknown, COUNT)
    (reason,) = obstacles(outer.model([start, most], [z]))
    assert reason == "a tensor changes its rank in the loop"
