"""The host runtime: its devices, what it refuses, how it plans and runs models."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import DeviceCode, OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import CompileOptions, Device

F32 = OperandCode.TENSOR_FLOAT32
I32 = OperandCode.TENSOR_INT32
RUNTIME = HostRuntime()
(REFERENCE,) = RUNTIME.devices()


def vector(*numbers):
    return np.array(numbers, np.float32)


def scalar(value):
    return Operand(OperandCode.INT32, value=Data.of(np.array(value, np.int32)))


def chain(dims, length=3):
    """x + x, that + x, and so on: temporaries that may share memory."""
    operands, operations = [Operand(F32, dims), scalar(0)], []
    for _ in range(length):
        before = len(operands) - 1 if operations else 0
        operands.append(Operand(F32, dims))
        operations.append(Operation(spec.ADD, (before, 0, 1), (len(operands) - 1,)))
    return Model(tuple(operands), tuple(operations), (0,), (len(operands) - 1,))


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
    model = chain((2,))
    exponent = Model(model.operands[:3], (Operation(spec.EXP, (0,), (2,)),), (0,), (2,))
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
    model = chain((2,), length=1)
    wrong = Model((*model.operands[:2], Operand(F32, (3,))), model.operations, (0,), (2,))
    with pytest.raises(RuntimeFailure, match="sizes 2 and 3") as caught:
        compiled(wrong).run([vector(1, 2)])
    assert caught.value.code == "ANEURALNETWORKS_OP_FAILED"


def test_a_reshaped_temporary_survives_the_memory_of_later_steps():
    """y = reshape(x + x) is read last, after steps that need memory as large."""
    shape = Operand(I32, (2,), value=Data.of(np.array([2, 2], np.int32)))
    flat, square = Operand(F32, (4,)), Operand(F32, (2, 2))
    operands = (flat, scalar(0), shape, flat, square, flat, flat, flat, square, square)
    operations = (
        Operation(spec.ADD, (0, 0, 1), (3,)),
        Operation(spec.RESHAPE, (3, 2), (4,)),
        Operation(spec.MUL, (0, 0, 1), (5,)),
        Operation(spec.ADD, (5, 5, 1), (6,)),
        Operation(spec.ADD, (6, 6, 1), (7,)),
        Operation(spec.RESHAPE, (7, 2), (8,)),
        Operation(spec.ADD, (4, 8, 1), (9,)),
    )
    x = vector(1, 2, 3, 4)
    (result,) = compiled(Model(operands, operations, (0,), (9,))).run([x])
    np.testing.assert_array_equal(result, (2 * x + 4 * x * x).reshape(2, 2))


def test_what_follows_from_constants_is_computed_once():
    """x + (c + c): one operation is left to run."""
    constant = Operand(F32, (2,), value=Data.of(vector(1, 2)))
    operands = (Operand(F32, (2,)), constant, scalar(0), Operand(F32, (2,)), Operand(F32, (2,)))
    operations = (Operation(spec.ADD, (1, 1, 2), (3,)), Operation(spec.ADD, (0, 3, 2), (4,)))
    compilation = compiled(Model(operands, operations, (0,), (4,)))
    assert len(compilation.prepared.steps) == 1
    np.testing.assert_array_equal(compilation.run([vector(10, 20)])[0], [12, 24])


def test_a_constant_takes_a_shape_known_only_in_the_run():
    constant = Operand(F32, (4,), value=Data.of(vector(1, 2, 3, 4)))
    operands = (Operand(I32, (2,)), constant, Operand(F32), scalar(0), Operand(F32))
    operations = (Operation(spec.RESHAPE, (1, 0), (2,)), Operation(spec.ADD, (2, 2, 3), (4,)))
    compilation = compiled(Model(operands, operations, (0,), (4,)))
    (result,) = compilation.run([np.array([2, 2], np.int32)])
    np.testing.assert_array_equal(result, [[2, 4], [6, 8]])


def test_an_output_that_is_an_input_reshaped_has_memory_of_its_own():
    shape = Operand(I32, (2,), value=Data.of(np.array([2, 1], np.int32)))
    operands = (Operand(F32, (2,)), shape, Operand(F32, (2, 1)))
    x = vector(1, 2)
    compilation = compiled(Model(operands, (Operation(spec.RESHAPE, (0, 1), (2,)),), (0,), (2,)))
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
