"""Calls that may not come back, on threads of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def called_for(seconds: float, call: Callable[[], T], name: str | None = None) -> Future[T]:
    """Returns the future of a call on a thread, after these seconds at the latest.

    name   of the thread
    One that is not done then is abandoned: what it uses must live as long as it runs, so `call` has
    to refer to it, and nothing else may.
    """
    future: Future[T] = Future()

    def run(future: Future[T]) -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        finally:
            del future  # an exception has the frames of the call, and by these this one

    Thread(target=run, args=(future,), daemon=True, name=name).start()
    wait([future], seconds)
    return future
