"""Durations and deadlines."""

import ctypes as c
import time

import pytest

from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.client import ref
from tests.capi.ways import WAYS, Way
from tests.capi.world import World

MISSED = (ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT)
BAD_STATE, BAD_DATA, OP_FAILED = ResultCode.BAD_STATE, ResultCode.BAD_DATA, ResultCode.OP_FAILED


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
