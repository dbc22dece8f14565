"""Calls that an execution refuses while it computes and after it, for each way to compute."""

import ctypes as c
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.client import pointer
from tests.capi.ways import WAYS, Way
from tests.capi.world import World

BAD_STATE = ResultCode.BAD_STATE
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
def test_nothing_is_computed_twice_at_once(
    world: World, way: Way, second: Way, reusable: bool
) -> None:
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
