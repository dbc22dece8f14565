"""Compilations of a library: which options it is told, and runs within a time limit."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode, ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure, Unresponsive
from ep_nnapi.nnapi.library import binding
from ep_nnapi.nnapi.library.compilation import LibraryCompilation
from ep_nnapi.nnapi.library.runtime import LibraryRuntime
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions, RunOptions
from tests.nnapi.build import X as OPERAND
from tests.nnapi.build import relu
from tests.nnapi.library.recorded import Recorded

X = np.float32([[-1, 0, 1], [2, -3, 4]])
RELU = np.maximum(X, 0)
LONG = RunOptions(timeout_ns=60_000_000_000)  # far longer than a run takes


def compiled(
    functions: Recorded, options: CompileOptions | None = None, rows: int = 2
) -> LibraryCompilation:
    runtime = LibraryRuntime(functions)
    device = next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)
    model = relu(replace(OPERAND, dimensions=(rows, 3)))
    return runtime.compile(model, device, options or CompileOptions())


def test_options_are_passed_on(tmp_path: Path) -> None:
    functions = Recorded()
    token = b"\1" * 32
    compiled(
        functions,
        CompileOptions(
            PreferenceCode.LOW_POWER, PriorityCode.HIGH, str(tmp_path), token, 60_000_000_000
        ),
    )
    given = {name: arguments[1:] for name, arguments in functions.arguments.items()}
    assert given["Compilation_setPreference"] == (PreferenceCode.LOW_POWER,)
    assert given["Compilation_setPriority"] == (PriorityCode.HIGH,)
    assert given["Compilation_setCaching"] == (str(tmp_path).encode(), token)
    assert given["Compilation_setTimeout"] == (60_000_000_000,)


def test_options_that_are_not_given_are_not_set() -> None:
    functions = Recorded()
    compiled(functions)
    assert functions.calls["Compilation_setPreference"] == 1
    assert not functions.calls["Compilation_setCaching"]
    assert not functions.calls["Compilation_setTimeout"]


def test_a_library_without_the_functions_still_compiles(tmp_path: Path) -> None:
    names = ("Priority", "Caching", "Timeout")
    functions = Recorded(hidden=[f"Compilation_set{name}" for name in names])
    options = CompileOptions(cache_dir=str(tmp_path), token=b"\1" * 32, timeout_ns=60_000_000_000)
    np.testing.assert_array_equal(compiled(functions, options).run([X])[0], RELU)


def test_a_failure_to_compile_is_raised_and_frees_everything() -> None:
    functions = Recorded(fails={"Compilation_finish": ResultCode.RESOURCE_EXHAUSTED_PERSISTENT})
    with pytest.raises(RuntimeFailure, match="RESOURCE_EXHAUSTED_PERSISTENT"):
        compiled(functions)
    assert functions.calls["Compilation_free"] == functions.calls["Model_free"] == 1


def test_executors_are_used_again() -> None:
    functions = Recorded()
    made = compiled(functions)
    for _ in range(3):
        np.testing.assert_array_equal(made.run([X])[0], RELU)
    assert functions.calls["Burst_create"] == 1


def test_one_that_failed_is_dropped() -> None:
    functions = Recorded(fails={"Execution_burstCompute": ResultCode.OP_FAILED})
    made = compiled(functions)
    with pytest.raises(RuntimeFailure):
        made.run([X])
    functions.fails.clear()
    np.testing.assert_array_equal(made.run([X])[0], RELU)
    assert functions.calls["Burst_create"] == 2


def test_a_limited_run_uses_copies_and_fills_the_callers_array() -> None:
    made, out = compiled(Recorded()), np.empty_like(X)
    (result,) = made.run([X], [out], LONG)
    assert result is out
    np.testing.assert_array_equal(out, RELU)
    with pytest.raises(RuntimeFailure, match=r"\(3, 2\), the output has \(2, 3\)"):
        made.run([X], [np.empty((3, 2), np.float32)], LONG)


@pytest.mark.parametrize("shape", [(1, 3), (3, 2)])
def test_a_limited_run_refuses_an_array_of_another_shape(shape: tuple[int, ...]) -> None:
    made = compiled(Recorded(), rows=0)
    with pytest.raises(RuntimeFailure, match=r"the output has \(2, 3\)"):
        made.run([X], [np.empty(shape, np.float32)], LONG)


class Blocking(Recorded):
    """Executions return when they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        super().__init__()

    def code(self, name: str, *arguments: object) -> int:
        if name == "Execution_burstCompute":
            self.released.wait()
        return super().code(name, *arguments)


def test_an_abandoned_run_leaves_the_callers_arrays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_GRACE_NS", 0)
    functions = Blocking()
    made = compiled(functions)
    x, out = X.copy(), np.full_like(X, 7)
    with pytest.raises(Unresponsive):
        made.run([x], [out], RunOptions(timeout_ns=1_000_000))
    x[:] = 0
    functions.released.set()
    np.testing.assert_array_equal(out, 7)
    np.testing.assert_array_equal(made.run([X], (), LONG)[0], RELU)


def test_stop_is_asked_before_the_library_is() -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    functions = Recorded()
    with pytest.raises(Stopped):
        compiled(functions).run([X], (), RunOptions(stop=stop))
    assert not functions.calls["Execution_create"]
