"""Executions in every way that the C API has, their events, and many at once."""

import ctypes
import ctypes as c
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ep_nnapi.nnapi.capi import execution as executions
from ep_nnapi.nnapi.capi.event import EVENTS
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from tests.capi.client import BAD_STATE, OP_FAILED, Library, pointer
from tests.capi.world import WAYS, Way, World


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_every_way_computes(world: World, way: Way) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    assert way(world, execution, compilation) == 0
    assert world.out.tolist() == [11, 22]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("outputs", [[], [3]], ids=["nothing", "a sum"])
def test_a_model_without_inputs_computes(world: World, way: Way, outputs: list[int]) -> None:
    model = world.anonymous_model
    for index, array in enumerate((world.a, world.b)):
        world.check("Model_setOperandValue", model, index, pointer(array), array.nbytes)
    world.identify(model, [], outputs)
    world.check("Model_finish", model)
    compilation = world.ready(model=model)
    execution = world.execution(compilation)
    for index, _ in enumerate(outputs):
        world.check("Execution_setOutput", execution, index, None, pointer(world.out), 8)
    assert way(world, execution, compilation) == 0
    assert world.out.tolist() == ([11, 22] if outputs else [0, 0])


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
            thread.join(30)
    assert codes == [0] * 8
    assert world.nn.Event_wait(event) == 0  # and again, at once


def without_new_threads(*_: object) -> int:
    """A thread that the system does not get round to."""
    return 0


def test_a_thread_that_waits_computes_if_no_other_has_begun(world: World, monkeypatch):
    monkeypatch.setattr(executions, "start_new_thread", without_new_threads)
    execution = world.set_all(world.execution(world.ready()))
    event = world.make("Execution_startCompute", execution)
    assert world.out.tolist() == [0, 0]
    assert world.nn.Event_wait(event) == 0
    assert world.out.tolist() == [11, 22]
    world.out[:] = 0
    assert world.nn.Event_wait(event) == 0  # not computed again
    assert world.out.tolist() == [0, 0]


def test_an_execution_that_no_thread_can_be_started_for_fails(world: World, monkeypatch):
    def refused(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(executions, "start_new_thread", refused)
    execution = world.set_all(world.execution(world.ready()))
    event = ctypes.c_void_p()
    assert world.nn.Execution_startCompute(execution, ctypes.byref(event)) == OP_FAILED
    assert event.value is None
    assert world.nn.Execution_compute(execution) == BAD_STATE  # it has ended


def test_others_that_wait_learn_that_the_computing_thread_is_interrupted(world: World, monkeypatch):
    monkeypatch.setattr(executions, "start_new_thread", without_new_threads)
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    event = EVENTS[world.make("Execution_startCompute", execution)]
    with world.slow(compilation, KeyboardInterrupt()) as go:
        go.set()
        with pytest.raises(KeyboardInterrupt):
            event.wait()
    assert event.wait_for_result_code() == OP_FAILED


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
    begun = threading.Event()
    with world.slow(compilation, begun=begun) as go:
        codes: list[int] = []
        thread = threading.Thread(
            target=lambda: codes.append(world.nn.Execution_burstCompute(first, running))
        )
        thread.start()
        assert begun.wait(30)
        assert world.nn.Execution_burstCompute(second, running) == BAD_STATE
        go.set()
        thread.join(30)
    assert codes == [0]
    assert world.nn.Execution_burstCompute(second, running) == 0


def test_fenced_executions_run_in_the_order_of_their_events(world: World) -> None:
    """third = (a + b) + b, read from the memory that the first one writes."""
    compilation, memory = world.ready(), world.memory()
    first, second = world.execution(compilation), world.execution(compilation)
    world.bind(first, world.a, world.b)
    world.check("Execution_setOutputFromMemory", first, 0, None, memory, 0, 8)
    world.check("Execution_setInputFromMemory", second, 0, None, memory, 0, 8)
    world.bind(second, None, world.b, out=world.out)
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


ways = pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
pairs = pytest.mark.parametrize(
    ("way", "second"), list(itertools.product(WAYS, WAYS)), ids=lambda w: w.__name__
)
reusable = pytest.mark.parametrize("reusable", [False, True])


@contextmanager
def computing(w: World, way: Way, execution: int, compilation: int) -> Iterator[None]:
    """While the execution is being computed, in the way; that succeeds at the end."""
    codes, begun = [], threading.Event()
    with w.slow(compilation, begun=begun) as go:
        work = threading.Thread(
            target=lambda: codes.append(way(w, execution, compilation)), daemon=True
        )
        work.start()
        assert begun.wait(30)
        yield
        go.set()
        work.join(30)
    assert codes == [0]


def set_again(w: World, execution: int) -> set[int]:
    """The codes of every function that says something about an execution before it is computed."""
    memory, buffer = w.memory(), pointer(w.a)
    return {
        w.nn.Execution_setInput(execution, 0, None, buffer, 8),
        w.nn.Execution_setOutput(execution, 0, None, pointer(w.out), 8),
        w.nn.Execution_setInputFromMemory(execution, 0, None, memory, 0, 8),
        w.nn.Execution_setOutputFromMemory(execution, 0, None, memory, 0, 8),
        w.nn.Execution_setLoopTimeout(execution, 10**9),
        w.nn.Execution_setTimeout(execution, 10**9),
        w.nn.Execution_setMeasureTiming(execution, True),
        w.nn.Execution_setReusable(execution, True),
        w.nn.Execution_setReusable(execution, False),
        w.nn.Execution_enableInputAndOutputPadding(execution, True),
        w.nn.Execution_enableInputAndOutputPadding(execution, False),
    }


def prepared(w: World, reusable: bool) -> tuple[int, int]:
    compilation = w.ready()
    execution = w.set_all(w.execution(compilation))
    w.check("Execution_setReusable", execution, reusable)
    return execution, compilation


@pairs
@reusable
def test_nothing_is_computed_twice_at_once(world: World, way: Way, second: Way, reusable: bool):
    execution, compilation = prepared(world, reusable)
    with computing(world, way, execution, compilation):
        assert second(world, execution, compilation) == BAD_STATE
    assert world.out.tolist() == [11, 22]
    assert second(world, execution, compilation) == (0 if reusable else BAD_STATE)


@ways
@reusable
def test_nothing_is_set_once_it_computes(world: World, way: Way, reusable: bool) -> None:
    execution, compilation = prepared(world, reusable)
    assert world.nn.Execution_setTimeout(execution, 10**9) == 0
    with computing(world, way, execution, compilation):
        assert set_again(world, execution) == {BAD_STATE}
    assert set_again(world, execution) == {BAD_STATE}


@ways
@reusable
def test_results_are_there_once_it_has_computed(world: World, way: Way, reusable: bool) -> None:
    execution, compilation = prepared(world, reusable)
    rank = c.c_uint32()
    with computing(world, way, execution, compilation):
        code = world.nn.Execution_getOutputOperandRank(execution, 0, c.byref(rank))
        assert code == BAD_STATE
    assert world.nn.Execution_getOutputOperandRank(execution, 0, c.byref(rank)) == 0
    assert rank.value == 1
