"""The four ways in which the C API computes."""

from collections.abc import Callable

from tests.capi.world import World


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
