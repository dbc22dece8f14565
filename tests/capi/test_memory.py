"""Memory objects: files, devices' memories, copies."""

import ctypes as c
import mmap
import os
import threading
import time

import numpy as np
import pytest

from ep_nnapi.nnapi.capi.burst import BURSTS
from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from ep_nnapi.nnapi.capi.event import EVENTS
from ep_nnapi.nnapi.capi.execution import EXECUTIONS
from ep_nnapi.nnapi.capi.memory import DESCRIPTORS, MEMORIES
from ep_nnapi.nnapi.capi.model import MODELS
from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.spec import ADD, CONV_2D, LOGICAL_NOT, QUANTIZE, TRANSPOSE
from tests.capi.client import (
    BAD_DATA,
    BAD_STATE,
    OP_FAILED,
    OperandType,
    channel_params,
    operand_type,
    pointer,
    ref,
    scalar,
)
from tests.capi.world import READ_WRITE, WAYS, Way, World, asynchronous, synchronous


def contents(fd: int, n: int) -> list[float]:
    return np.frombuffer(os.pread(fd, n, 0), np.float32).tolist()


def test_a_file_is_shared_not_copied(world: World) -> None:
    """Offsets that are no page's: the input begins at byte 4, the output at byte 12."""
    fd = world.file(np.array([9, 1, 2, 0, 0], np.float32).tobytes())
    memory = world.make("Memory_createFromFd", 16, READ_WRITE, fd, 4)
    execution = world.fresh_execution
    world.check("Execution_setInputFromMemory", execution, 0, None, memory, 0, 8)
    world.bind(execution, None, world.b)
    world.check("Execution_setOutputFromMemory", execution, 0, None, memory, 8, 8)
    os.pwrite(fd, np.array([5], np.float32).tobytes(), 4)
    world.check("Execution_compute", execution)
    assert contents(fd, 20) == [9, 5, 2, 15, 22]


def test_a_descriptor_may_be_closed_once_it_is_mapped(world: World) -> None:
    fd = os.memfd_create("closed")
    os.write(fd, world.a.tobytes())
    memory = world.make("Memory_createFromFd", 8, mmap.PROT_READ, fd, 0)
    os.close(fd)
    execution = world.fresh_execution
    world.check("Execution_setInputFromMemory", execution, 0, None, memory, 0, 8)
    world.nn.Memory_free(memory)
    world.bind(execution, None, world.b, out=world.out)
    world.check("Execution_compute", execution)
    assert world.out.tolist() == [11, 22]


def run(w: World, compilation: int, *, given: int | None = None, result: int | None = None) -> int:
    """Computes with a device's memory as first input, as output, or both; returns the code."""
    execution = w.execution(compilation)
    w.bind(execution, w.a if given is None else None, w.b, out=w.out if result is None else None)
    if given is not None:
        w.check("Execution_setInputFromMemory", execution, 0, None, given, 0, 0)
    if result is not None:
        w.check("Execution_setOutputFromMemory", execution, 0, None, result, 0, 0)
    return w.nn.Execution_compute(execution)


def both_roles(w: World, compilation: int) -> int:
    desc = w.descriptor(compilation)
    w.check("MemoryDesc_addOutputRole", desc, compilation, 0, 1.0)
    w.check("MemoryDesc_finish", desc)
    return w.make("Memory_createFromDesc", desc)


def test_a_devices_memory_carries_a_value_from_one_execution_to_the_next(world: World) -> None:
    compilation = world.ready()
    memory = both_roles(world, compilation)
    assert run(world, compilation, given=memory) == OP_FAILED  # nothing is in it yet
    assert run(world, compilation, result=memory) == 0
    assert run(world, compilation, given=memory) == 0
    assert world.out.tolist() == [21, 42]


def test_a_failed_execution_leaves_a_devices_memory_without_a_value(world: World) -> None:
    compilation = world.ready()
    memory = both_roles(world, compilation)
    assert run(world, compilation, result=memory) == 0
    with world.slow(compilation, ValueError("as the test wants")) as go:
        go.set()
        assert run(world, compilation, result=memory) == OP_FAILED
    assert run(world, compilation, given=memory) == OP_FAILED


def test_copies_between_files_and_devices(world: World) -> None:
    compilation = world.ready()
    one, two = (world.device_memory(compilation) for _ in range(2))
    source = world.memory(world.b.tobytes())
    fd = world.file(bytes(8))
    target = world.make("Memory_createFromFd", 8, READ_WRITE, fd, 0)
    assert world.nn.Memory_copy(one, target) == BAD_DATA  # no value
    for pair in ((source, one), (one, two), (two, target)):
        assert world.nn.Memory_copy(*pair) == 0
    assert contents(fd, 8) == [10, 20]
    assert run(world, compilation, given=two) == 0
    assert world.out.tolist() == [20, 40]


def test_a_failed_copy_leaves_the_target_without_a_value(world: World) -> None:
    memory = world.device_memory()
    assert world.nn.Memory_copy(world.memory(), memory) == 0
    assert world.nn.Memory_copy(world.memory(bytes(4)), memory) == BAD_DATA
    assert world.nn.Memory_copy(memory, world.memory()) == BAD_DATA


def test_devices_memories_of_other_dimensions_are_not_copied(world: World) -> None:
    flat = world.device_memory(world.ready(model=world.finished(dims=(2,))))
    row = world.device_memory(world.ready(model=world.finished(dims=(1, 2))))
    assert world.nn.Memory_copy(world.memory(), flat) == 0
    assert world.nn.Memory_copy(flat, row) == BAD_DATA


def put(w: World, compilation: int, memory: int) -> None:
    """Computes two numbers, of dimensions that only this execution knows, into the memory."""
    execution = w.bind(w.execution(compilation), w.a, w.b, described=operand_type())
    w.check("Execution_setOutputFromMemory", execution, 0, None, memory, 0, 0)
    w.check("Execution_compute", execution)


def test_a_devices_memory_of_unknown_dimensions_takes_what_it_is_given(world: World) -> None:
    compilation = world.ready(model=world.finished(dims=(0,)))
    memory = both_roles(world, compilation)
    put(world, compilation, memory)
    fd = world.file(bytes(8))
    target = world.make("Memory_createFromFd", 8, READ_WRITE, fd, 0)
    world.check("Memory_copy", memory, target)
    assert contents(fd, 8) == [11, 22]


def test_input_dimensions_are_the_values(world: World) -> None:
    """The memory holds two numbers, the execution says three."""
    compilation = world.ready(model=world.finished(dims=(0,)))
    memory = both_roles(world, compilation)
    put(world, compilation, memory)
    execution, three = world.execution(compilation), operand_type(dimensions=(3,))
    longer = np.zeros(3, np.float32)
    world.check("Execution_setInputFromMemory", execution, 0, ref(three), memory, 0, 0)
    world.bind(execution, None, longer, out=longer, described=three)
    assert world.nn.Execution_compute(execution) == OP_FAILED


def single(w: World, op: int, inputs: list[OperandType], output: OperandType) -> int:
    """A compilation of one operation; inputs are the model's."""
    ends = range(len(inputs)), [len(inputs)]
    return w.ready(model=w.model_of([*inputs, output], (op, *ends), ends=ends))


def quantizing(w: World, scale: float, zero_point: int) -> int:
    """A compilation whose output is quantized."""
    described = operand_type(OperandCode.TENSOR_QUANT8_ASYMM, (2,), scale, zero_point)
    return single(w, QUANTIZE.code, [operand_type()], described)


def test_roles_are_of_one_type_scale_and_zero_point(world: World) -> None:
    desc = world.descriptor(quantizing(world, 0.5, 3), outward=True)
    add = world.nn.MemoryDesc_addOutputRole
    assert add(desc, quantizing(world, 0.25, 3), 0, 1.0) == BAD_DATA
    assert add(desc, quantizing(world, 0.5, 4), 0, 1.0) == BAD_DATA
    assert add(desc, world.ready(), 0, 1.0) == BAD_DATA
    assert add(desc, quantizing(world, 0.5, 3), 0, 1.0) == 0


def weighing(w: World, scales: list[float]) -> int:
    """A compilation whose second input has scales along a dimension."""
    n = len(scales)
    image = operand_type(OperandCode.TENSOR_QUANT8_ASYMM, (1, 4, 4, n), 1.0)
    weights = operand_type(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (n, 3, 3, n))
    bias = operand_type(OperandCode.TENSOR_INT32, (n,))
    model = w.model_of([image, weights, bias, *[scalar()] * 4, image])
    params = ref(channel_params(0, scales))
    w.check("Model_setOperandSymmPerChannelQuantParams", model, 1, params)
    assert w.add(model, CONV_2D.code, range(7), [7]) == 0
    w.identify(model, range(7), [7])
    w.check("Model_finish", model)
    return w.ready(model=model)


def test_roles_are_of_the_same_channels(world: World) -> None:
    desc = world.make("MemoryDesc_create")
    add = world.nn.MemoryDesc_addInputRole
    assert add(desc, weighing(world, [1.0, 1.0]), 1, 1.0) == 0
    assert add(desc, weighing(world, [1.0, 0.5]), 1, 1.0) == BAD_DATA
    assert add(desc, weighing(world, [1.0, 1.0]), 1, 1.0) == 0


def test_nothing_piles_up(world: World) -> None:
    """Worlds of objects come and go: no handle, no descriptor, no thread stays."""
    kinds = (MODELS, COMPILATIONS, EXECUTIONS, BURSTS, EVENTS, DESCRIPTORS, MEMORIES)

    def held() -> tuple[int, ...]:
        return (*map(len, kinds), len(os.listdir("/proc/self/fd")), threading.active_count())

    before = held()
    for _ in range(50):
        one = World(world.nn)
        for state in (one.measured_execution, one.event, one.device_memory(), one.memory()):
            assert state
        one.close()
    deadline = time.monotonic() + 30
    while held() != before and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread that has told its event may need a moment to end
    assert held() == before


INSUFFICIENT = ResultCode.OUTPUT_INSUFFICIENT_SIZE


def test_longer_buffers_take_padding(world: World) -> None:
    execution = world.fresh_execution
    longer = np.zeros(5, np.float32)
    longer[:2] = 1, 2
    setting = (None, pointer(longer), longer.nbytes)
    assert world.nn.Execution_setInput(execution, 0, *setting) == BAD_DATA
    execution = world.fresh_execution
    world.check("Execution_enableInputAndOutputPadding", execution, True)
    out = np.full(4, -1, np.float32)
    world.bind(execution, longer, world.b, out=out)
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
    a, out = np.arange(5, dtype=np.float32), np.full(4, -1, np.float32)
    execution, given = world.execution(compilation), operand_type(dimensions=(5,))
    world.bind(execution, a, a, out=out, described=given)
    assert way(world, execution, compilation) == INSUFFICIENT
    rank, dims = c.c_uint32(), (c.c_uint32 * 1)()
    assert world.nn.Execution_getOutputOperandRank(execution, 0, ref(rank)) == INSUFFICIENT
    assert world.nn.Execution_getOutputOperandDimensions(execution, 0, dims) == INSUFFICIENT
    assert (rank.value, dims[0]) == (1, 5)
    assert out.tolist() == [-1] * 4


def test_output_dimensions_that_do_not_come_true_fail(world: World) -> None:
    compilation = world.ready(model=world.finished(dims=(0,)))
    execution, out = world.execution(compilation), np.zeros(3, np.float32)
    world.bind(execution, world.a, world.b, described=operand_type())
    given = ref(operand_type(dimensions=(3,)))
    world.check("Execution_setOutput", execution, 0, given, pointer(out), out.nbytes)
    assert world.nn.Execution_compute(execution) == OP_FAILED


def test_an_optional_input_may_be_left_out(world: World) -> None:
    perm = operand_type(OperandCode.TENSOR_INT32, (2,))
    shapes = operand_type(dimensions=(2, 3)), operand_type(dimensions=(3, 2))
    compilation = single(world, TRANSPOSE.code, [shapes[0], perm], shapes[1])
    a, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    execution = world.bind(world.execution(compilation), a, out=out)
    world.check("Execution_setInput", execution, 1, None, None, 0)
    world.check("Execution_compute", execution)
    assert out.tolist() == [0, 3, 1, 4, 2, 5]


def test_any_byte_but_0_is_true(world: World) -> None:
    bools = operand_type(OperandCode.TENSOR_BOOL8, (4,))
    given, out = np.array([0, 1, 2, 255], np.uint8), np.full(4, 9, np.uint8)
    execution = world.execution(single(world, LOGICAL_NOT.code, [bools], bools))
    world.check("Execution_compute", world.bind(execution, given, out=out))
    assert out.tolist() == [1, 0, 0, 0]


def test_a_value_that_no_device_can_use_fails_when_it_is_used(world: World) -> None:
    """Activation 999: the model is finished and compiled, as on Android."""
    compilation = world.ready(model=world.finished(activation=999))
    assert world.nn.Execution_compute(world.set_all(world.execution(compilation))) == OP_FAILED


def test_an_output_above_4_gib_fails_before_it_is_made(world: World) -> None:
    """[65536, 1] . [1, 65536]: 16 GiB, known only when the inputs are."""
    column, row = operand_type(dimensions=(0, 1)), operand_type(dimensions=(1, 0))
    operands, none = [column, row, scalar(), operand_type(dimensions=(0, 0))], c.c_int32(0)
    model = world.model_of(operands, (ADD.code, [0, 1, 2], [3]))
    world.check("Model_setOperandValue", model, 2, ref(none), 4)
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


MISSED = (ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT)


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_durations_nest(world: World, way: Way) -> None:
    """On the device <= in the driver, and without the wait for others <= with it."""
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    world.check("Execution_setMeasureTiming", execution, True)
    assert way(world, execution, compilation) == 0
    found = []
    for code in range(4):
        duration = c.c_uint64()
        world.check("Execution_getDuration", execution, code, ref(duration))
        found.append(duration.value)
    device, driver, fenced_device, fenced_driver = found
    assert 0 < device <= fenced_driver <= driver < 10**10
    assert fenced_device == device


def test_a_fenced_duration_leaves_the_wait_out(world: World) -> None:
    compilation = world.ready()
    first, second = (world.set_all(world.execution(compilation)) for _ in range(2))
    world.check("Execution_setMeasureTiming", second, True)
    start = "Execution_startComputeWithDependencies"
    with world.slow(compilation) as go:
        one = world.make(start, first, None, 0, 0)
        two = world.make(start, second, world.devices(one), 1, 0)
        time.sleep(0.2)
        go.set()
        assert world.nn.Event_wait(two) == 0
    driver, fenced_driver = c.c_uint64(), c.c_uint64()
    world.check("Execution_getDuration", second, 1, ref(driver))
    world.check("Execution_getDuration", second, 3, ref(fenced_driver))
    assert fenced_driver.value + 150_000_000 < driver.value


def test_unmeasured_durations_are_the_largest_number(world: World) -> None:
    duration = c.c_uint64()
    code = world.nn.Execution_getDuration(world.computed_execution, 0, ref(duration))
    assert (code, duration.value) == (BAD_STATE, 2**64 - 1)


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_deadline_that_is_over_is_missed(world: World, way: Way) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    world.check("Execution_setTimeout", execution, 1)  # a nanosecond
    assert way(world, execution, compilation) in MISSED


def test_a_fenced_duration_limits_only_what_follows_the_fence(world: World) -> None:
    compilation = world.ready()
    first, second, third = (world.set_all(world.execution(compilation)) for _ in range(3))
    start = "Execution_startComputeWithDependencies"
    with world.slow(compilation) as go:
        one = world.make(start, first, None, 0, 0)
        two = world.make(start, second, world.devices(one), 1, 10**9)
        three = world.make(start, third, world.devices(one), 1, 1)
        time.sleep(1.1)  # longer than the second may take
        go.set()
        assert world.nn.Event_wait(two) == 0
        assert world.nn.Event_wait(three) in MISSED


def test_a_deadline_of_compiling_is_missed(world: World) -> None:
    compilation = world.open_compilation
    world.check("Compilation_setTimeout", compilation, 1)  # a nanosecond
    assert world.nn.Compilation_finish(compilation) in MISSED
    handle = ref(c.c_void_p())
    assert world.nn.Execution_create(compilation, handle) == BAD_STATE
