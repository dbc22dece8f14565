"""The host runtime: its devices, what it refuses, how it plans and runs models."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Operand, Operation
from ep_nnapi.nnapi.runtime import CompileOptions, Device
from ep_nnapi.nnapi.spec import F32, I32
from tests.nnapi.build import one
from tests.ort_devices.networks import Network

RUNTIME = HostRuntime()
(REFERENCE,) = RUNTIME.devices()


def vector(*numbers):
    return np.array(numbers, np.float32)


def chain(dims, length=3):
    """x + x, that + x, and so on: temporaries that may share memory."""
    net = Network(Operand(F32, dims))
    (x,) = net.inputs
    y, none = x, net.add(0)
    for _ in range(length):
        y = net.operation(spec.ADD, [y, x, none], Operand(F32, dims))
    return net.model(y)


def compiled(model):
    return RUNTIME.compile(model, REFERENCE)


def test_the_reference_device_is_a_cpu_of_the_runtimes_level():
    assert HostRuntime(feature_level=3).devices() == (
        Device("nnapi-reference", DeviceCode.CPU, REFERENCE.version, 3),
    )


def test_each_operation_is_matched_once(monkeypatch):
    matched = []
    match = Operation.match

    def counted(operation, operands, level):
        matched.append(operation)
        return match(operation, operands, level)

    monkeypatch.setattr(Operation, "match", counted)
    model = chain((2,))
    assert all(RUNTIME.supported(model, REFERENCE))
    compiled(model)
    assert matched == list(model.operations)


def test_a_model_above_the_level_is_refused():
    exponent = one(spec.EXP, [Operand(F32, (2,))], [Operand(F32, (2,))])
    HostRuntime(feature_level=3).supported(exponent, REFERENCE)
    with pytest.raises(SpecError, match="EXP needs feature level 3"):
        HostRuntime(feature_level=2).supported(exponent, REFERENCE)


@pytest.mark.parametrize("dims", [(0,), ()], ids=["size", "rank"])
def test_unknown_dimensions_are_given_by_each_run(dims):
    compilation = compiled(chain(dims))
    for size in (2, 0, 5, 2):
        (result,) = compilation.run([np.arange(size, dtype=np.float32)])
        np.testing.assert_array_equal(result, 4 * np.arange(size))


def test_a_declared_shape_that_the_operation_does_not_have_fails_the_run():
    wrong = one(spec.MUL, [Operand(F32, (2,)), np.ones(1), 0], [Operand(F32, (3,))])
    with pytest.raises(RuntimeFailure, match="sizes 2 and 3") as caught:
        compiled(wrong).run([vector(1, 2)])
    assert caught.value.code == "ANEURALNETWORKS_OP_FAILED"


def test_a_reshaped_temporary_survives_the_memory_of_later_steps():
    """y = reshape(x + x) is read last, after steps that need memory as large."""
    shape, flat, square = np.array([2, 2]), Operand(F32, (4,)), Operand(F32, (2, 2))
    net = Network(flat)
    (x,) = net.inputs
    y = net.operation(spec.ADD, [x, x, 0], flat)
    first = net.operation(spec.RESHAPE, [y, shape], square)
    y = net.operation(spec.MUL, [x, x, 0], flat)
    for _ in range(2):
        y = net.operation(spec.ADD, [y, y, 0], flat)
    second = net.operation(spec.RESHAPE, [y, shape], square)
    x = vector(1, 2, 3, 4)
    model = net.model(net.operation(spec.ADD, [first, second, 0], square))
    (result,) = compiled(model).run([x])
    np.testing.assert_array_equal(result, (2 * x + 4 * x * x).reshape(2, 2))


def test_what_follows_from_constants_is_computed_once():
    """x + (c + c): one operation is left to run."""
    net = Network(x := Operand(F32, (2,)))
    constant = net.add(vector(1, 2))
    y = net.operation(spec.ADD, [constant, constant, 0], x)
    compilation = compiled(net.model(net.operation(spec.ADD, [*net.inputs, y, 0], x)))
    assert len(compilation.prepared.steps) == 1
    np.testing.assert_array_equal(compilation.run([vector(10, 20)])[0], [12, 24])


def test_a_constant_takes_a_shape_known_only_in_the_run():
    net = Network(Operand(I32, (2,)))
    y = net.operation(spec.RESHAPE, [vector(1, 2, 3, 4), *net.inputs], Operand(F32))
    compilation = compiled(net.model(net.operation(spec.ADD, [y, y, 0], Operand(F32))))
    (result,) = compilation.run([np.array([2, 2], np.int32)])
    np.testing.assert_array_equal(result, [[2, 4], [6, 8]])


def test_an_output_that_is_an_input_reshaped_has_memory_of_its_own():
    x, ends = vector(1, 2), (Operand(F32, (2,)), Operand(F32, (2, 1)))
    compilation = compiled(one(spec.RESHAPE, [ends[0], np.array([2, 1])], ends[1:]))
    (result,) = compilation.run([x])
    assert not np.shares_memory(result, x)
    np.testing.assert_array_equal(result, [[1], [2]])


def test_relaxed_models_are_rounded_to_half():
    """1 + 2**-11 is no float16; unrelaxed models are untouched, and precise ones."""
    model = chain((1,), length=1)
    relaxed = replace(model, relaxed=True)
    x = vector(1 + 2.0**-11)
    for tested, expected in ((model, 2 * x), (relaxed, vector(2))):
        np.testing.assert_array_equal(compiled(tested).run([x])[0], expected)
    precise = HostRuntime().compile(relaxed, REFERENCE, CompileOptions(precise=True))
    np.testing.assert_array_equal(precise.run([x])[0], 2 * x)
