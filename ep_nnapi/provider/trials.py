"""Calls that may not come back: they hang, or end the process.

Each has a deadline, and as long as it lasts a note in a folder, where the next start finds it. The
C plugin's are native/trial.c, which writes and reads the same notes.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic_ns
from typing import IO, TypeAlias, TypeVar

from ep_nnapi.epcontext._native import lib
from ep_nnapi.nnapi.deadline import called_for
from ep_nnapi.nnapi.immutable import frozen

T = TypeVar("T")
_Held: TypeAlias = tuple[Path, IO[str], int]
"""A note, its open file, and its handle in native/on_signal.h.

The file is locked: so others know that its trial has not ended. A signal that ends the process
removes it: SIGTERM blames no device.
"""


class DidNotReturn(Exception):
    """A trial has missed its deadline, or an earlier start has ended in it; the message says so."""


@frozen
class TrialNote:
    """The note of a trial: what may not come back, such as a device, and who tries it.

    folder   None: none is written
    about    digest of a model and the build of the system
    tried    digest of what is tried with it, after a letter for its kind
    """

    folder: str | None
    about: str = ""
    tried: str = ""
    by: str = ""

    @staticmethod
    def of(folder: str | None, about: bytes, kind: str, tried: str, by: bytes = b"") -> TrialNote:
        """Returns a note about these bytes, such as a model, with what is tried, of a kind."""
        if folder is None:
            return TrialNote(None)
        build = f"{platform.release()[:60]} {platform.version()[:60]}"
        about_digest = _digest(about + build.encode(), 16)
        return TrialNote(folder, about_digest, kind + _digest(tried.encode(), 8), _digest(by, 8))

    def check_free(self, *, whole: bool = False) -> None:
        """Raises DidNotReturn if there is such a note of a trial that ended its start, or hangs.

        whole   with anything of its kind
        Notes of trials that others make at the same time are none.
        """
        if self.folder is not None:
            start = f"ep-nnapi-{self.about}-{self.tried[0] if whole else self.tried}"
            for path in sorted(Path(self.folder).glob(f"{start}*.trying")):
                if not _lasts(path):
                    raise DidNotReturn(
                        f"an earlier start ended in it, as {path} says; remove that to try again"
                    )

    def write(self, suffix: str, text: str) -> None:
        """Writes a text to the file of that suffix, such as what was chosen."""
        if self.folder is not None:
            with suppress(OSError):
                self._path(suffix).write_text(f"{text}\n")

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
            if held is not None:
                _, file, handle = held
                lib.ctx_keep_on_signal(handle)
                file.close()
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

    def _begin(self, text: str) -> _Held | None:
        """Writes the note to a file of its own; None if it cannot be written."""
        if self.folder is None:
            return None
        own = f"{os.getpid():x}-{monotonic_ns():x}"
        new, path = self._path(f"{own}.new"), self._path(f"{own}.trying")
        try:
            file = new.open("x")
        except OSError:
            return None
        try:
            with suppress(OSError):  # where files have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{text}\n")
            file.flush()
            new.rename(path)  # under its name it is locked from the first moment on
        except OSError:
            _end((new, file, -1))
            return None
        return path, file, lib.ctx_remove_on_signal(os.fsencode(path))

    def _path(self, suffix: str) -> Path:
        return Path(self.folder or "", f"ep-nnapi-{self.about}-{self.tried}-{self.by}.{suffix}")


def _end(held: _Held | None) -> None:
    if held is not None:
        path, file, handle = held
        with suppress(OSError):
            path.unlink()
        lib.ctx_keep_on_signal(handle)
        with suppress(OSError):  # what a full disk did not take
            file.close()


def _end_before(deadline: float, held: _Held | None, process: int) -> None:
    """Ends a note of this process until its trial is late, in nanoseconds of monotonic time."""
    if monotonic_ns() < deadline and os.getpid() == process:
        _end(held)


def _lasts(path: Path) -> bool:
    """True if the trial of a note lasts, or has just ended well."""
    try:
        with path.open() as note:
            fcntl.flock(note, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return os.fstat(note.fileno()).st_nlink == 0
    except (BlockingIOError, FileNotFoundError):
        return True
    except OSError:
        return False


def _digest(of: bytes, characters: int) -> str:
    return hashlib.sha256(of).hexdigest()[:characters]
