"""Calls that return in time, that fail, and that are abandoned."""

from __future__ import annotations

import threading

import pytest

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure, Unresponsive
from ep_nnapi.nnapi.library import deadline
from ep_nnapi.nnapi.library.binding import failed
from ep_nnapi.nnapi.library.deadline import within

LONG_NS = 60_000_000_000  # far longer than any of these calls takes


def test_without_a_timeout_the_call_stays_on_its_thread() -> None:
    assert within(None, "Execution_compute", threading.get_ident) == threading.get_ident()


def test_with_one_it_has_a_thread_of_its_own() -> None:
    assert within(LONG_NS, "Execution_compute", threading.get_ident) != threading.get_ident()
    names = within(LONG_NS, "Execution_compute", lambda: threading.current_thread().name)
    assert names == "nnapi Execution_compute"


@pytest.mark.parametrize("timeout", [None, LONG_NS])
@pytest.mark.parametrize("result", [None, 0, [1]])
def test_the_result_is_returned(timeout: int | None, result: object) -> None:
    assert within(timeout, "Execution_compute", lambda: result) is result


@pytest.mark.parametrize("timeout", [None, LONG_NS])
@pytest.mark.parametrize(
    "error", [failed("Model_finish", ResultCode.BAD_DATA), KeyboardInterrupt(), SystemExit(1)]
)
def test_the_exception_is_raised(timeout: int | None, error: BaseException) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        within(timeout, "Model_finish", call)
    assert caught.value is error


def test_a_call_that_does_not_return_is_abandoned() -> None:
    released, ended = threading.Event(), threading.Event()

    def call() -> None:
        released.wait()
        ended.set()

    with pytest.raises(Unresponsive, match=r"it has not returned 0\.001 s on") as caught:
        within(1_000_000, "Compilation_finish", call)
    assert isinstance(caught.value, RuntimeFailure)
    assert caught.value.call == "ANeuralNetworksCompilation_finish"
    assert caught.value.code == "ANEURALNETWORKS_MISSED_DEADLINE_PERSISTENT"
    assert not ended.is_set()
    released.set()
    assert ended.wait(60)  # the abandoned call may end later, and nobody sees it


def test_a_driver_that_reports_its_deadline_soon_after_it_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within the grace its own failure comes before Unresponsive."""
    monkeypatch.setattr(deadline, "_GRACE_NS", LONG_NS)
    missed = failed("Execution_compute", ResultCode.MISSED_DEADLINE_TRANSIENT)
    late = threading.Event()

    def call() -> None:
        late.wait(0.002)  # twice the timeout
        raise missed

    with pytest.raises(RuntimeFailure) as caught:
        within(1_000_000, "Execution_compute", call)
    assert caught.value is missed
