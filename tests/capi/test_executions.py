"""Executions in every way that the C API has: results, waiting, limits, durations."""

import ctypes as c
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.spec import ADD, LOGICAL_NOT, TRANSPOSE
from ep_nnapi.rejection import RuntimeFailure
from tests.capi.client import Library, operand_type, pointer, ref, scalar, u32s
from tests.capi.world import World

INSUFFICIENT = ResultCode.OUTPUT_INSUFFICIENT_SIZE
MISSED = (ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT)
BAD_STATE, BAD_DATA, OP_FAILED = ResultCode.BAD_STATE, ResultCode.BAD_DATA, ResultCode.OP_FAILED


def synchronous(w: World, execution: int, _: int) -> int:
    return w.nn.Execution_compute(execution)


def asynchronous(w: World, execution: int, _: int) -> int:
    return w.nn.Event_wait(w.make("Execution_startCompute", execution))


def burst(w: World, execution: int, compilation: int) -> int:
    return w.nn.Execution_burstCompute(execution, w.burst(compilation))


def fenced(w: World, execution: int, _: int) -> int:
    event = w.make("Execution_startComputeWithDependencies", execution, None, 0, 0)
    return w.nn.Event_wait(event)


WAYS = [synchronous, asynchronous, burst, fenced]
Way = Callable[[World, int, int], int]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_every_way_computes(world: World, way: Way) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    assert way(world, execution, compilation) == 0
    assert world.out.tolist() == [11, 22]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_reusable_execution_reads_its_buffers_anew(world: World, way: Way) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    world.check("Execution_setReusable", execution, True)
    for n in range(3):
        world.a[:] = n, 2 * n
        assert way(world, execution, compilation) == 0
        assert world.out.tolist() == [10 + n, 20 + 2 * n]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_a_failure_reaches_the_client_by_its_code(world: World, way: Way) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    error = RuntimeFailure("compute", "ANEURALNETWORKS_RESOURCE_EXHAUSTED_TRANSIENT")
    with world.slow(compilation, error) as go:
        go.set()
        assert way(world, execution, compilation) == ResultCode.RESOURCE_EXHAUSTED_TRANSIENT


def test_any_number_of_threads_wait_for_one_event(world: World) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    codes: list[int] = []
    with world.slow(compilation) as go:
        event = world.make("Execution_startCompute", execution)
        waiting = [
            threading.Thread(target=lambda: codes.append(world.nn.Event_wait(event)))
            for _ in range(8)
        ]
        for thread in waiting:
            thread.start()
        assert codes == []
        go.set()
        for thread in waiting:
            thread.join(10)
    assert codes == [0] * 8
    assert world.nn.Event_wait(event) == 0  # and again, at once


def test_freeing_an_event_waits_for_its_execution(world: World) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    with world.slow(compilation) as go:
        event = world.make("Execution_startCompute", execution)
        timer = threading.Timer(0.1, go.set)
        timer.start()
        world.nn.Event_free(event)
    assert world.out.tolist() == [11, 22]


def test_handles_may_be_freed_while_the_execution_runs(world: World) -> None:
    model = world.finished_model
    compilation = world.ready(model=model)
    execution = world.set_all(world.execution(compilation))
    with world.slow(compilation) as go:
        event = world.make("Execution_startCompute", execution)
        world.nn.Execution_free(execution)
        world.nn.Compilation_free(compilation)
        world.nn.Model_free(model)
        go.set()
        assert world.nn.Event_wait(event) == 0
    assert world.out.tolist() == [11, 22]


def test_one_burst_runs_one_execution_at_a_time(world: World) -> None:
    compilation = world.ready()
    first, second = (world.set_all(world.execution(compilation)) for _ in range(2))
    running = world.burst(compilation)
    with world.slow(compilation) as go:
        codes: list[int] = []
        thread = threading.Thread(
            target=lambda: codes.append(world.nn.Execution_burstCompute(first, running))
        )
        thread.start()
        time.sleep(0.05)
        assert world.nn.Execution_burstCompute(second, running) == BAD_STATE
        go.set()
        thread.join(10)
    assert codes == [0]
    assert world.nn.Execution_burstCompute(second, running) == 0


def test_fenced_executions_run_in_the_order_of_their_events(world: World) -> None:
    """third = (a + b) + b, read from the memory that the first one writes."""
    compilation, memory = world.ready(), world.memory()
    first, second = world.execution(compilation), world.execution(compilation)
    for i, array in enumerate((world.a, world.b)):
        world.check("Execution_setInput", first, i, None, pointer(array), 8)
    world.check("Execution_setOutputFromMemory", first, 0, None, memory, 0, 8)
    world.check("Execution_setInputFromMemory", second, 0, None, memory, 0, 8)
    world.check("Execution_setInput", second, 1, None, pointer(world.b), 8)
    world.check("Execution_setOutput", second, 0, None, pointer(world.out), 8)
    start = "Execution_startComputeWithDependencies"
    with world.slow(compilation) as go:
        one = world.make(start, first, None, 0, 0)
        two = world.make(start, second, world.devices(one), 1, 0)
        go.set()
        assert world.nn.Event_wait(two) == 0
    assert world.out.tolist() == [21, 42]


def test_what_depends_on_a_failure_fails(world: World) -> None:
    event = world.make(
        "Execution_startComputeWithDependencies",
        world.set_execution,
        world.devices(world.failed_event),
        1,
        0,
    )
    assert world.nn.Event_wait(event) == OP_FAILED


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
        time.sleep(0.1)
        go.set()
        assert world.nn.Event_wait(two) == 0
        assert world.nn.Event_wait(three) in MISSED


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
    begin = time.monotonic()
    assert world.nn.Execution_compute(execution) == OP_FAILED
    assert time.monotonic() - begin < 5  # made, it would take longer by far


def test_a_deadline_of_compiling_is_missed(world: World) -> None:
    compilation = world.open_compilation
    world.check("Compilation_setTimeout", compilation, 1)  # a nanosecond
    assert world.nn.Compilation_finish(compilation) in MISSED
    handle = ref(c.c_void_p())
    assert world.nn.Execution_create(compilation, handle) == BAD_STATE


def test_eight_threads_at_once(nn: Library) -> None:
    """Each thread builds, compiles and runs models of its own."""
    wrong: list[object] = []

    def work(seed: int) -> None:
        world = World(nn)
        try:
            for n in range(20):
                world.a[:] = seed, n
                world.check("Execution_compute", world.set_execution)
                if world.out.tolist() != [10 + seed, 20 + n]:
                    wrong.append((seed, n, world.out.tolist()))
        except AssertionError as error:
            wrong.append(error)
        finally:
            world.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
