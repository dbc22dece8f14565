"""Models written through the C API: what the library is told, and which part failed."""

import ctypes
import gc
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.model_writer import operand_type, uint32s, write_model
from ep_nnapi.nnapi.library.weights import SharedWeights
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand
from tests.nnapi.build import BOOL8, F32, I32, NONE, constant, one, relu, tensor
from tests.nnapi.library.recorded import Recorded


def written(functions: Recorded, model: Model) -> None:
    weights = SharedWeights(functions)
    assert write_model(functions, weights, weights.share(model)).value


def test_operand_types() -> None:
    found = operand_type(
        tensor(OperandCode.TENSOR_QUANT8_ASYMM, 9, scale=0.5, zero_point=3), (2, 4)
    )
    assert (found.type, found.dimensionCount, found.scale, found.zeroPoint) == (5, 2, 0.5, 3)
    sizes = ctypes.cast(found.dimensions, ctypes.POINTER(ctypes.c_uint32))
    assert sizes[:2] == [2, 4]
    unknown = operand_type(tensor(F32), ())
    assert (unknown.dimensionCount, unknown.dimensions) == (0, None)


def test_numbers_as_an_array() -> None:
    assert list(uint32s([3, 2**32 - 1])) == [3, 2**32 - 1]
    assert len(uint32s([])) == 0


def test_the_calls_of_a_model() -> None:
    functions = Recorded()
    x = tensor(F32, 2, 3)
    written(functions, one(spec.ADD, [x, constant(np.ones(3, np.float32)), NONE], [x]))
    calls = {k: n for k, n in functions.calls.items() if not k.endswith(("Level", "_free"))}
    assert calls == {
        "Model_create": 1,
        "Model_addOperand": 4,
        "Model_setOperandValue": 2,
        "Model_addOperation": 1,
        "Model_identifyInputsAndOutputs": 1,
        "Model_finish": 1,
    }
    _, code, count, inputs, outputs, written_to = functions.arguments["Model_addOperation"]
    assert (code, count, list(inputs), outputs, list(written_to)) == (0, 3, [0, 1, 2], 1, [3])


def test_large_constants_are_set_from_memory() -> None:
    functions = Recorded()
    x = tensor(F32, 100)
    written(functions, one(spec.ADD, [x, constant(np.ones(100, np.float32)), NONE], [x]))
    assert functions.calls["Model_setOperandValueFromMemory"] == 1
    assert functions.arguments["Model_setOperandValueFromMemory"][-2:] == (0, 400)


def test_an_omitted_operand_is_set_to_null() -> None:
    functions = Recorded()
    none = Operand(I32, (0,), value=Omitted.NO_VALUE)
    written(functions, one(spec.TRANSPOSE, [tensor(F32, 2, 3), none], [tensor(F32, 3, 2)]))
    assert functions.arguments["Model_setOperandValue"][1:] == (1, None, 0)


def test_scales_per_channel() -> None:
    functions = Recorded()
    scales = ChannelQuantization(0, (0.5, 0.25))
    filters = Operand(spec.Q8C, (2, 1), channels=scales, value=Data.of(np.int8([[1], [2]])))
    model = one(spec.DEQUANTIZE, [filters], [tensor(F32, 2, 1)])
    written(functions, model)
    assert functions.calls["Model_setOperandSymmPerChannelQuantParams"] == 1


def test_a_submodel_of_two_operands_is_written_once() -> None:
    functions = Recorded()
    x = tensor(F32, 2, 3)
    branch = Operand(OperandCode.MODEL, value=relu(x))
    written(functions, one(spec.IF, [tensor(BOOL8, 1), branch, branch, x], [x]))
    assert functions.calls["Model_create"] == 2
    assert functions.calls["Model_setOperandValueFromModel"] == 2


@pytest.mark.parametrize("relaxed", [False, True])
def test_the_relaxed_mode_is_set_where_the_library_has_it(relaxed: bool) -> None:
    name = "Model_relaxComputationFloat32toFloat16"
    model = replace(relu(), relaxed=relaxed)
    functions = Recorded()
    written(functions, model)
    assert functions.calls[name] == relaxed
    written(Recorded(hidden=[name]), model)


FAILURES = {
    "Model_addOperand": "operand 0",
    "Model_addOperation": r"operation 0 \(RELU\) of Relu_7, Add_8",
    "Model_identifyInputsAndOutputs": "",
    "Model_finish": "",
}


@pytest.mark.parametrize(("name", "culprit"), FAILURES.items(), ids=FAILURES)
def test_a_failure_names_its_operand_or_operation(name: str, culprit: str) -> None:
    model = relu()
    operation = replace(model.operations[0], origin=("Relu_7", "Add_8"))
    functions = Recorded(fails={name: ResultCode.BAD_DATA})
    with pytest.raises(RuntimeFailure, match=f"ANEURALNETWORKS_BAD_DATA.*{culprit}") as caught:
        written(functions, replace(model, operations=(operation,)))
    assert caught.value.call == f"ANeuralNetworks{name}"
    caught = None  # its traceback refers to the model
    gc.collect()
    assert functions.calls["Model_free"] == functions.calls["Model_create"] == 1
