"""Failures of devices: repeated calls, and devices that are left out for the rest of a process."""

import logging

import pytest

from ep_nnapi.nnapi.codes import COMPUTE, ResultCode, failure
from ep_nnapi.nnapi.errors import RuntimeFailure, Unresponsive
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.library.runtime import LibraryRuntime
from ep_nnapi.provider import device_health
from ep_nnapi.provider.device_health import (
    MOST_FAILURES,
    TRANSIENT,
    DeviceHealth,
    Failures,
    health_of,
    repeatable,
    repeated,
)
from tests.nnapi.library.recorded import Recorded

FAILED = failure(COMPUTE, ResultCode.OP_FAILED, "out of luck")
MISSED = failure(COMPUTE, ResultCode.MISSED_DEADLINE_TRANSIENT)
BLOCKED = Unresponsive(MISSED.call, MISSED.code, "it has not returned 1 s on")


def failed(health: DeviceHealth, times: int, device: str = "npu") -> None:
    for _ in range(times):
        health.report(device, FAILED)


def test_a_device_is_left_out_after_its_third_failure(caplog: pytest.LogCaptureFixture) -> None:
    health = DeviceHealth()
    failed(health, MOST_FAILURES - 1)
    assert health.left_out("npu") is None
    failed(health, 1)
    assert health.left_out("npu") == f"npu failed 3 times and is left out; the last time {FAILED}"
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    failed(health, 5)
    assert len(caplog.records) == 1  # it is said once


def test_failures_are_counted_for_each_device() -> None:
    health = DeviceHealth()
    for device in ("npu", "gpu"):
        failed(health, MOST_FAILURES - 1, device)
    failed(health, 1, "gpu")
    assert health.left_out("npu") is None
    assert health.left_out("gpu").startswith("gpu failed 3 times")


def test_a_call_that_does_not_return_is_enough() -> None:
    health = DeviceHealth()
    health.report("npu", BLOCKED)
    assert health.left_out("npu").startswith("npu does not respond and is left out")


def test_sessions_on_one_runtime_share_the_health() -> None:
    runtime = HostRuntime([])
    assert health_of(runtime) is health_of(runtime)
    assert health_of(HostRuntime([])) is not health_of(runtime)


def test_sessions_on_one_library_share_the_health() -> None:
    """Each session has a runtime object of its own there."""
    functions = Recorded()
    assert health_of(LibraryRuntime(functions)) is health_of(LibraryRuntime(functions))
    assert health_of(LibraryRuntime(Recorded())) is not health_of(LibraryRuntime(functions))


@pytest.mark.parametrize("code", [c for c in ResultCode if c])
def test_only_codes_that_pass_are_tried_again(code: ResultCode) -> None:
    assert repeatable(failure(COMPUTE, code)) is (code in TRANSIENT)
    assert (code in TRANSIENT) == (code.name.endswith("TRANSIENT") or code.name == "DEAD_OBJECT")


def test_a_call_that_did_not_return_is_not_tried_again() -> None:
    assert repeatable(MISSED)
    assert not repeatable(BLOCKED)


def attempts(*errors: Exception, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], object]:
    """The delays between the attempts, and the result or the exception."""
    waiting, delays = list(errors), []
    monkeypatch.setattr(device_health.time, "sleep", delays.append)

    def call() -> str:
        if waiting:
            raise waiting.pop(0)
        return "done"

    try:
        return delays, repeated(call)
    except RuntimeFailure as error:
        return delays, error


def test_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempts(monkeypatch=monkeypatch) == ([], "done")
    assert attempts(MISSED, monkeypatch=monkeypatch) == ([device_health.RETRY_DELAY], "done")
    assert attempts(MISSED, FAILED, monkeypatch=monkeypatch)[1] is FAILED
    assert attempts(FAILED, monkeypatch=monkeypatch) == ([], FAILED)
    assert attempts(BLOCKED, monkeypatch=monkeypatch) == ([], BLOCKED)
    assert attempts(MISSED, MISSED, MISSED, monkeypatch=monkeypatch)[1] is MISSED  # two at most


def test_other_exceptions_pass() -> None:
    def call() -> None:
        raise ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        repeated(call)


@pytest.mark.parametrize(("count", "stored"), [(8, 8), (9, 8)])
def test_the_last_eight_failures_are_stored_without_tracebacks(count: int, stored: int):
    failures = Failures()
    for i in range(count):
        try:
            raise RuntimeFailure("call", "CODE", str(i))
        except RuntimeFailure as failure:
            failures.add(failure)
    assert failures.count == count
    assert [f.detail for f in failures] == [str(i) for i in range(count - stored, count)]
    assert all(f.__traceback__ is None for f in failures)
