"""Interrupts that are raised in C callbacks: stored, and raised again in the main thread."""

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ep_nnapi.nnapi.interrupts import escaped, hold, raise_held


@pytest.fixture
def scheduled() -> Iterator[list[None]]:
    """Calls of `later`; nothing is held afterwards, and sys.excepthook is as before."""
    before = sys.excepthook
    yield []
    with suppress(BaseException):  # held by a test that failed
        raise_held()
    sys.excepthook = before


def raised(error: BaseException) -> BaseException:
    """The error, with the traceback and context of being raised."""
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise error  # noqa: B904 (its context is what is tested)
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_raised_once_without_its_frames(scheduled, kind: type[BaseException]):
    error = raised(kind(3))
    hold(error, lambda: scheduled.append(None))
    assert len(scheduled) == 1
    assert error.__traceback__ is None
    assert error.__context__ is None
    with pytest.raises(kind) as caught:
        raise_held()
    assert caught.value is error
    raise_held()  # nothing is left


def test_the_first_of_several_is_raised(scheduled) -> None:
    first, second = KeyboardInterrupt(), SystemExit(1)
    for error in (first, second):
        hold(error, lambda: scheduled.append(None))
    assert len(scheduled) == 2
    with pytest.raises(KeyboardInterrupt):
        raise_held()
    raise_held()


def test_ordinary_exceptions_are_not_held(scheduled) -> None:
    hold(ValueError("x"), lambda: scheduled.append(None))
    assert not scheduled
    raise_held()


def test_other_threads_are_left_alone(scheduled) -> None:
    """Only the main thread gets signals; SystemExit of a thread ends that thread."""
    arguments = (SystemExit(1), lambda: scheduled.append(None))
    thread = threading.Thread(target=hold, args=arguments)
    thread.start()
    thread.join()
    assert not scheduled
    raise_held()


def test_the_excepthook_stays_python_code_until_the_interrupt_is_raised(scheduled) -> None:
    seen = []
    sys.excepthook = before = lambda *a: seen.append(a[0])
    hold(SystemExit(2), lambda: scheduled.append(None))
    assert sys.excepthook is not before
    sys.excepthook(ValueError, ValueError("x"), None)
    assert seen == [ValueError]  # the hook that was there is still called
    with pytest.raises(SystemExit):
        raise_held()
    assert sys.excepthook is before


def test_a_hook_that_was_set_meanwhile_stays(scheduled) -> None:
    hold(SystemExit(2), lambda: scheduled.append(None))
    sys.excepthook = other = lambda *_: None
    with pytest.raises(SystemExit):
        raise_held()
    assert sys.excepthook is other


def test_what_escapes_a_callback_is_reported_or_held(scheduled) -> None:
    seen = []
    sys.excepthook = lambda kind, *_: seen.append(kind)
    handle = escaped(lambda: scheduled.append(None))
    handle(ValueError, ValueError("x"), None)
    assert (seen, scheduled) == ([ValueError], [])
    handle(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert (seen, scheduled) == ([ValueError], [None])
    with pytest.raises(KeyboardInterrupt):
        raise_held()
