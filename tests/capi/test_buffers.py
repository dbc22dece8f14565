"""Buffers of an execution: lengths, dimensions, values."""

import ctypes as c
import time

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.spec import ADD, LOGICAL_NOT, TRANSPOSE
from tests.capi.client import operand_type, pointer, ref, scalar, u32s
from tests.capi.ways import Way, asynchronous, synchronous
from tests.capi.world import World

INSUFFICIENT = ResultCode.OUTPUT_INSUFFICIENT_SIZE
BAD_STATE, BAD_DATA, OP_FAILED = ResultCode.BAD_STATE, ResultCode.BAD_DATA, ResultCode.OP_FAILED


def test_longer_buffers_take_padding(world: World) -> None:
    execution = world.fresh_execution
    longer = np.zeros(5, np.float32)
    longer[:2] = 1, 2
    setting = (None, pointer(longer), longer.nbytes)
    assert world.nn.Execution_setInput(execution, 0, *setting) == BAD_DATA
    execution = world.fresh_execution
    world.check("Execution_enableInputAndOutputPadding", execution, True)
    world.check("Execution_setInput", execution, 0, *setting)
    world.check("Execution_setInput", execution, 1, None, pointer(world.b), 8)
    out = np.full(4, -1, np.float32)
    world.check("Execution_setOutput", execution, 0, None, pointer(out), out.nbytes)
    world.check("Execution_compute", execution)
    assert out.tolist() == [11, 22, -1, -1]


def test_buffers_need_no_alignment(world: World) -> None:
    raw = np.zeros(32, np.uint8)
    for start, numbers in ((1, [1, 2]), (11, [3, 4])):
        raw[start : start + 8] = np.array(numbers, np.float32).view(np.uint8)
    execution, at = world.fresh_execution, pointer(raw)
    for i, start in enumerate((1, 11)):
        world.check("Execution_setInput", execution, i, None, at + start, 8)
    world.check("Execution_setOutput", execution, 0, None, at + 21, 8)
    world.check("Execution_compute", execution)
    assert raw[21:29].copy().view(np.float32).tolist() == [4, 6]


@pytest.mark.parametrize("way", [synchronous, asynchronous], ids=lambda w: w.__name__)
def test_an_output_that_does_not_fit_says_what_it_needs(world: World, way: Way) -> None:
    compilation = world.ready(model=world.finished(dims=(0,)))
    execution = world.execution(compilation)
    a = np.arange(5, dtype=np.float32)
    out = np.full(4, -1, np.float32)
    for i in range(2):
        given = ref(operand_type(dimensions=(5,)))
        world.check("Execution_setInput", execution, i, given, pointer(a), a.nbytes)
    world.check("Execution_setOutput", execution, 0, None, pointer(out), out.nbytes)
    assert way(world, execution, compilation) == INSUFFICIENT
    rank, dims = c.c_uint32(), (c.c_uint32 * 1)()
    assert world.nn.Execution_getOutputOperandRank(execution, 0, ref(rank)) == INSUFFICIENT
    assert world.nn.Execution_getOutputOperandDimensions(execution, 0, dims) == INSUFFICIENT
    assert (rank.value, dims[0]) == (1, 5)
    assert out.tolist() == [-1] * 4


def test_output_dimensions_that_do_not_come_true_fail(world: World) -> None:
    compilation = world.ready(model=world.finished(dims=(0,)))
    execution = world.execution(compilation)
    out = np.zeros(3, np.float32)
    for i, array in enumerate((world.a, world.b)):
        world.check("Execution_setInput", execution, i, ref(operand_type()), pointer(array), 8)
    given = ref(operand_type(dimensions=(3,)))
    world.check("Execution_setOutput", execution, 0, given, pointer(out), out.nbytes)
    assert world.nn.Execution_compute(execution) == OP_FAILED


def single(w: World, op: int, inputs: list[object], output: object) -> int:
    """A compilation of one operation; inputs are the model's."""
    model = w.make("Model_create")
    for described in (*inputs, output):
        w.check("Model_addOperand", model, ref(described))
    indexes = list(range(len(inputs)))
    ends = (len(inputs), u32s(indexes), 1, u32s([len(inputs)]))
    w.check("Model_addOperation", model, op, *ends)
    w.check("Model_identifyInputsAndOutputs", model, *ends)
    w.check("Model_finish", model)
    return w.ready(model=model)


def test_an_optional_input_may_be_left_out(world: World) -> None:
    perm = operand_type(OperandCode.TENSOR_INT32, (2,))
    shapes = operand_type(dimensions=(2, 3)), operand_type(dimensions=(3, 2))
    compilation = single(world, TRANSPOSE.code, [shapes[0], perm], shapes[1])
    execution = world.execution(compilation)
    a, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    world.check("Execution_setInput", execution, 0, None, pointer(a), a.nbytes)
    world.check("Execution_setInput", execution, 1, None, None, 0)
    world.check("Execution_setOutput", execution, 0, None, pointer(out), out.nbytes)
    world.check("Execution_compute", execution)
    assert out.tolist() == [0, 3, 1, 4, 2, 5]


def test_any_byte_but_0_is_true(world: World) -> None:
    bools = operand_type(OperandCode.TENSOR_BOOL8, (4,))
    execution = world.execution(single(world, LOGICAL_NOT.code, [bools], bools))
    given, out = np.array([0, 1, 2, 255], np.uint8), np.full(4, 9, np.uint8)
    world.check("Execution_setInput", execution, 0, None, pointer(given), 4)
    world.check("Execution_setOutput", execution, 0, None, pointer(out), 4)
    world.check("Execution_compute", execution)
    assert out.tolist() == [1, 0, 0, 0]


def test_a_value_that_no_device_can_use_fails_when_it_is_used(world: World) -> None:
    """Activation 999: the model is finished and compiled, as on Android."""
    compilation = world.ready(model=world.finished(activation=999))
    assert world.nn.Execution_compute(world.set_all(world.execution(compilation))) == OP_FAILED


def test_an_output_above_4_gib_fails_before_it_is_made(world: World) -> None:
    """[65536, 1] . [1, 65536]: 16 GiB, known only when the inputs are."""
    column, row = operand_type(dimensions=(0, 1)), operand_type(dimensions=(1, 0))
    model = world.make("Model_create")
    for described in (column, row, scalar(), operand_type(dimensions=(0, 0))):
        world.check("Model_addOperand", model, ref(described))
    none = c.c_int32(0)
    world.check("Model_setOperandValue", model, 2, ref(none), 4)
    world.check("Model_addOperation", model, ADD.code, 3, u32s([0, 1, 2]), 1, u32s([3]))
    world.identify(model, [0, 1], [3])
    world.check("Model_finish", model)
    execution, a = world.execution(world.ready(model=model)), np.zeros(1 << 16, np.float32)
    for i, dims in enumerate(((1 << 16, 1), (1, 1 << 16))):
        given = ref(operand_type(dimensions=dims))
        world.check("Execution_setInput", execution, i, given, pointer(a), a.nbytes)
    world.check("Execution_setOutput", execution, 0, None, pointer(a), a.nbytes)
    begin = time.process_time()
    assert world.nn.Execution_compute(execution) == OP_FAILED
    assert time.process_time() - begin < 5  # made, it would take longer by far
