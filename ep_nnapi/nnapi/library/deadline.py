"""Calls that are abandoned when they do not return in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import Unresponsive
from ep_nnapi.nnapi.library.binding import failed

T = TypeVar("T")

_GRACE_NS = 100_000_000
"""Least time after a deadline in which a driver may report by itself that it missed it."""


def within(timeout_ns: int | None, name: str, call: Callable[[], T]) -> T:
    """The result of `call`, which calls the NNAPI function `name`, or its exception.

    With a timeout it runs on a thread of its own; one that has not returned a quarter later than
    the timeout is abandoned, and Unresponsive is raised. What it uses must live as long as it runs,
    so `call` has to refer to it, and nothing else may.
    """
    if timeout_ns is None:
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name=f"nnapi {name}")
    thread.start()
    thread.join((timeout_ns + max(timeout_ns // 4, _GRACE_NS)) / 1e9)
    if errors:
        raise errors[0]
    if results:
        return results[0]
    missed = failed(name, ResultCode.MISSED_DEADLINE_PERSISTENT)
    raise Unresponsive(missed.call, missed.code, f"it has not returned {timeout_ns / 1e9:g} s on")
