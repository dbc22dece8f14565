"""Calls that may not come back: they hang, or end the process.

Each has a deadline, and as long as it lasts a note in a folder, where the next start finds it. The
notes are those of native/trial.c, which has the C plugin's calls too: a signal such as SIGTERM that
ends the process removes them.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock
from time import monotonic_ns
from typing import TYPE_CHECKING, TypeVar

from ep_nnapi.native._native import ffi, lib
from ep_nnapi.native.calls import done
from ep_nnapi.nnapi.deadline import called_for
from ep_nnapi.nnapi.immutable import frozen

if TYPE_CHECKING:
    from ep_nnapi.native._native import CData

T = TypeVar("T")


class DidNotReturn(Exception):
    """A trial has missed its deadline, or an earlier start has ended in it; the message says so."""


@frozen
class TrialNote:
    """The note of a trial: what may not come back, such as a device, and who tries it.

    note   a ctx_note
    """

    note: CData

    @staticmethod
    def of(folder: str | None, about: bytes, kind: str, tried: str, by: bytes = b"") -> TrialNote:
        """Returns a note about these bytes, such as a model, with what is tried, of a kind.

        folder   None: none is written
        """
        what = (about, len(about), kind.encode(), tried.encode(), by, len(by))
        return TrialNote(ffi.new("ctx_note *", lib.ctx_note_of(_path(folder), *what)))

    def check_free(self, *, whole: bool = False) -> None:
        """Raises DidNotReturn if there is such a note of a trial that ended its start, or hangs.

        whole   with anything of its kind
        Notes of trials that others make at the same time are none.
        """
        done(DidNotReturn, lib.ctx_note_is_free, self.note, whole)

    def write(self, suffix: str, text: str) -> None:
        """Writes a text to the file of that suffix, such as what was chosen."""
        lib.ctx_note_write(self.note, suffix.encode(), text.encode())

    def within(self, seconds: float, doing: str, text: str, work: Callable[[], T]) -> T:
        """Returns what `work` does in a thread of its own, which is noted as `text` meanwhile.

        doing   what it is to do, for the sentence
        Raises DidNotReturn if it has not come back in time: its note stays, and its thread. Else
        the thread ends the note: who waits may be interrupted. A program that ends for that, before
        the deadline, ends the note too.
        """
        ended = late = False
        lock = Lock()

        def noted() -> T:
            nonlocal ended
            try:
                return work()
            finally:
                with lock:
                    ended = True
                    if not late:
                        _end(held)

        held, begun = self._begin(text), monotonic_ns()
        try:
            called = called_for(seconds, noted)
        except RuntimeError:  # no thread can be started
            _end(held)
            raise
        except BaseException:  # KeyboardInterrupt, or SystemExit of a signal's handler
            atexit.register(_end_before, begun + seconds * 1e9, held, os.getpid())
            raise
        with lock:
            late = not ended
        if late:
            lib.ctx_note_leave(*held)
            raise DidNotReturn(f"it did not {doing} within {seconds:g} s")
        try:
            return called.result()
        finally:
            del called  # an exception has this frame, and the future has the exception

    @contextmanager
    def written(self, text: str) -> Iterator[None]:
        """Has the note there as long as the context lasts."""
        held = self._begin(text)
        try:
            yield
        finally:
            _end(held)

    def _begin(self, text: str) -> list[CData]:
        """Begins a note of its own; who ends it removes it from the list."""
        held = ffi.new("ctx_note *", self.note[0])
        lib.ctx_note_begin(held, text.encode())
        return [held]


@cache
def _path(folder: str | None) -> CData:
    """A path as C has it, for the life of the process."""
    return ffi.NULL if folder is None else ffi.new("char[]", os.fsencode(folder))


def _end(held: list[CData]) -> None:
    with suppress(IndexError):  # another thread ends it
        lib.ctx_note_end(held.pop())


def _end_before(deadline: float, held: list[CData], process: int) -> None:
    """Ends a note of this process until its trial is late, in nanoseconds of monotonic time."""
    if monotonic_ns() < deadline and os.getpid() == process:
        _end(held)
