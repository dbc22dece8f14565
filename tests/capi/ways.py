"""The four ways in which the C API computes."""

import ctypes as c
from collections.abc import Callable

from tests.capi.client import ref
from tests.capi.world import World


def waited(w: World, code: int, event: c.c_void_p) -> int:
    """The code of what was to be started, or else of its end."""
    code = code or w.nn.Event_wait(event)
    w.nn.Event_free(event)
    return code


def synchronous(w: World, execution: int, _: int) -> int:
    return w.nn.Execution_compute(execution)


def asynchronous(w: World, execution: int, _: int) -> int:
    event = c.c_void_p()
    return waited(w, w.nn.Execution_startCompute(execution, ref(event)), event)


def burst(w: World, execution: int, compilation: int) -> int:
    return w.nn.Execution_burstCompute(execution, w.burst(compilation))


def fenced(w: World, execution: int, _: int) -> int:
    event = c.c_void_p()
    start = w.nn.Execution_startComputeWithDependencies
    return waited(w, start(execution, None, 0, 0, ref(event)), event)


WAYS = [synchronous, asynchronous, burst, fenced]
Way = Callable[[World, int, int], int]
