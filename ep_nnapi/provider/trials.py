"""Calls that may not come back: they hang, or end the process.

Each has a deadline, and as long as it lasts a note in a folder, where the next start finds it. The
C plugin's are native/trial.c, which writes and reads the same notes.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ep_nnapi.nnapi.deadline import called_for
from ep_nnapi.nnapi.immutable import frozen

T = TypeVar("T")
_TRYING = "trying"


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
        """Raises DidNotReturn if there is such a note of anyone already.

        whole   with anything of its kind
        """
        if self.folder is not None:
            start = f"ep-nnapi-{self.about}-{self.tried[0] if whole else self.tried}"
            for path in sorted(Path(self.folder).glob(f"{start}*.{_TRYING}")):
                raise DidNotReturn(f"an earlier start ended in it, as {path} says")

    def write(self, suffix: str, text: str) -> None:
        """Writes a text to the file of that suffix, such as what was chosen."""
        path = self._path(suffix)
        if path is not None:
            with suppress(OSError):
                path.write_text(f"{text}\n")

    def within(self, seconds: float, doing: str, text: str, work: Callable[[], T]) -> T:
        """Returns what `work` does in a thread of its own, which is noted as `text` meanwhile.

        doing   what it is to do, for the sentence
        Raises DidNotReturn if it has not come back in time: its note stays, and its thread.
        """
        self.write(_TRYING, text)
        called = called_for(seconds, work)
        if not called.done():
            raise DidNotReturn(f"it did not {doing} within {seconds:g} s")
        self._remove()
        try:
            return called.result()
        finally:
            del called  # an exception has this frame, and the future has the exception

    @contextmanager
    def written(self, text: str) -> Iterator[None]:
        """Has the note there as long as the context lasts."""
        self.write(_TRYING, text)
        try:
            yield
        finally:
            self._remove()

    def _remove(self) -> None:
        path = self._path(_TRYING)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, suffix: str) -> Path | None:
        if self.folder is None:
            return None
        return Path(self.folder, f"ep-nnapi-{self.about}-{self.tried}-{self.by}.{suffix}")


def _digest(of: bytes, characters: int) -> str:
    return hashlib.sha256(of).hexdigest()[:characters]
