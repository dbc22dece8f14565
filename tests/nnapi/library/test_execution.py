"""Executions through the C API: which calls are made, by the functions that a library has."""

from collections.abc import Sequence

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.compilation import Executor, LibraryCompilation
from ep_nnapi.nnapi.library.runtime import LibraryRuntime
from ep_nnapi.nnapi.model import Model, Operation
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Duration, RunOptions
from tests.nnapi.build import F32, NONE, one, tensor
from tests.nnapi.library.recorded import Recorded

X = np.float32([[1, 2, 3], [4, 5, 6]])
NO_BURST = ("Burst_create",)
NO_COMPUTE = (*NO_BURST, "Execution_compute")
ONCE = (*NO_BURST, "Execution_setReusable")
"""Hidden: bursts and executions that can be computed again."""


def doubled(*dims: int) -> Model:
    """x + x; 0 for unknown dimensions."""
    return one(spec.ADD, [tensor(F32, *dims), tensor(F32, *dims), NONE], [tensor(F32, *dims)])


def compiled(functions: Recorded, model: Model) -> LibraryCompilation:
    runtime = LibraryRuntime(functions)
    device = next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)
    return runtime.compile(model, device)


def executor(functions: Recorded, *dims: int) -> Executor:
    made = compiled(functions, doubled(*dims))
    return Executor(functions, made.compilation, made.inputs, made.outputs, made.measurable)


def run(made: Executor, x: np.ndarray, outputs: Sequence[np.ndarray | None] = (None,)):
    return made.run([x, x], outputs, RunOptions())


@pytest.mark.parametrize(
    ("hidden", "computes"),
    [((), "Execution_burstCompute"), (NO_BURST, "Execution_compute"), (NO_COMPUTE, "Event_wait")],
)
def test_the_fastest_way_to_compute_that_there_is(hidden: Sequence[str], computes: str) -> None:
    functions = Recorded(hidden)
    np.testing.assert_array_equal(run(executor(functions, 2, 3), X)[0], 2 * X)
    assert functions.calls[computes] == 1


def test_a_driver_without_bursts_computes_all_the_same() -> None:
    functions = Recorded(fails={"Burst_create": ResultCode.OP_FAILED})
    np.testing.assert_array_equal(run(executor(functions, 2, 3), X)[0], 2 * X)
    assert functions.calls["Execution_compute"] == 1


@pytest.mark.parametrize(("hidden", "executions"), [(NO_BURST, 1), (ONCE, 3)])
def test_an_execution_is_computed_again_while_buffers_stay(hidden, executions: int) -> None:
    functions = Recorded(hidden)
    made, out = executor(functions, 2, 3), np.empty_like(X)
    for _ in range(3):
        assert run(made, X, [out])[0] is out
    assert functions.calls["Execution_create"] == executions
    np.testing.assert_array_equal(out, 2 * X)


def test_other_buffers_or_options_need_another_execution() -> None:
    functions = Recorded(NO_BURST)
    made, out = executor(functions, 2, 3), np.empty_like(X)
    run(made, X, [out])
    run(made, X.copy(), [out])
    assert functions.calls["Execution_create"] == 2
    made.run([X, X], [out], RunOptions(loop_timeout_ns=10**9))
    assert functions.calls["Execution_create"] == 3
    assert functions.calls["Execution_setLoopTimeout"] == 1


@pytest.mark.parametrize("rows", [1, 341, 342, 5000])
def test_outputs_of_unknown_dimensions_get_buffers_that_grow(rows: int) -> None:
    """341 rows of three floats fit the first buffer of 4096 bytes, 342 do not."""
    functions = Recorded(NO_BURST)
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    (result,) = run(executor(functions, 0, 3), x)
    np.testing.assert_array_equal(result, 2 * x)
    assert functions.calls["Execution_compute"] == (1 if rows <= 341 else 2)


def test_buffers_that_grow_stay_beside_given_arrays() -> None:
    """The next run begins with what the last one needed."""
    functions = Recorded(NO_BURST)
    x = np.arange(3 * 342, dtype=np.float32).reshape(342, 3)
    both = [Operation(spec.ADD, (0, 1, 2), (n,)) for n in (3, 4)]
    model = Model((*doubled(0, 3).operands, tensor(F32, 0, 3)), tuple(both), (0, 1), (3, 4))
    made = compiled(functions, model)
    executor = Executor(functions, made.compilation, made.inputs, made.outputs, made.measurable)
    given = np.empty_like(x)
    for computed in (2, 3):
        first, second = run(executor, x, [given, None])
        assert first is given
        np.testing.assert_array_equal(given, 2 * x)
        np.testing.assert_array_equal(second, 2 * x)
        assert functions.calls["Execution_compute"] == computed


class Insufficient(Recorded):
    """Computes, and says each time that the output's buffer is too small."""

    def code(self, name: str, *arguments: object) -> int:
        code = super().code(name, *arguments)
        return int(ResultCode.OUTPUT_INSUFFICIENT_SIZE) if name == "Execution_compute" else code


def test_the_last_of_eight_tries_with_larger_buffers_is_a_failure() -> None:
    functions = Insufficient(NO_BURST)
    with pytest.raises(RuntimeFailure, match="OUTPUT_INSUFFICIENT_SIZE"):
        run(executor(functions, 0, 3), X)
    assert functions.calls["Execution_compute"] == 8


def test_known_dimensions_are_tried_once() -> None:
    functions = Recorded(NO_BURST, {"Execution_compute": ResultCode.OUTPUT_INSUFFICIENT_SIZE})
    with pytest.raises(RuntimeFailure, match="OUTPUT_INSUFFICIENT_SIZE"):
        run(executor(functions, 2, 3), X)
    assert functions.calls["Execution_compute"] == 1


def test_after_a_failure_the_next_run_has_a_new_execution() -> None:
    functions = Recorded(NO_BURST, {"Execution_compute": ResultCode.OP_FAILED})
    made = executor(functions, 2, 3)
    with pytest.raises(RuntimeFailure, match=r"Execution_compute returned .*OP_FAILED"):
        run(made, X)
    functions.fails.clear()
    np.testing.assert_array_equal(run(made, X)[0], 2 * X)
    assert functions.calls["Execution_create"] == 2


def test_the_function_that_failed_is_named_by_each_way() -> None:
    for hidden, name in (
        ((), "Execution_burstCompute"),
        (NO_COMPUTE, "Execution_startCompute"),
        (NO_COMPUTE, "Event_wait"),
    ):
        functions = Recorded(hidden, {name: ResultCode.BAD_STATE})
        with pytest.raises(RuntimeFailure) as caught:
            run(executor(functions, 2, 3), X)
        assert caught.value.call == f"ANeuralNetworks{name}"


def measured(functions: Recorded) -> list[Duration]:
    found: list[Duration] = []
    executor(functions, 2, 3).run([X, X], [None], RunOptions(measure=found.append))
    return found


def test_durations_are_measured_where_the_library_can() -> None:
    (found,) = measured(Recorded())
    assert 0 < found.on_hardware <= found.in_driver
    assert measured(Recorded(hidden=["Execution_getDuration"])) == []


def test_a_duration_that_the_driver_does_not_know_is_none() -> None:
    """It leaves the largest number, as the NDK has it: here it fills nothing in."""
    functions = Recorded(fails={"Execution_getDuration": ResultCode.NO_ERROR})
    assert measured(functions) == [Duration(None, None)]
