"""This project's own library as a client sees it, with a record of its calls.

    functions = Recorded(hidden=("Burst_create",))
    ...
    assert functions.calls["Execution_create"] == 1

Functions that are hidden are missing for the client, as in a library of an older Android.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Collection, Mapping

import ep_nnapi
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.library.binding import Functions


class Partial:
    """A loaded library without some of its symbols."""

    def __init__(self, library: ctypes.CDLL, hidden: Collection[str]) -> None:
        self._library, self._hidden = library, set(hidden)

    def __getattr__(self, name: str) -> object:
        if name in self._hidden:
            raise AttributeError(name)
        return getattr(self._library, name)

    def __getitem__(self, name: str) -> object:
        return self._library[name]


class Recorded(Functions):
    """The functions but for `hidden`, whose calls are counted.

    fails   result codes that a function returns instead of being called
    """

    def __init__(
        self, hidden: Collection[str] = (), fails: Mapping[str, ResultCode] | None = None
    ) -> None:
        path = ep_nnapi.libneuralnetworks_path()
        names = [f"ANeuralNetworks{'_' if name.startswith('get') else ''}{name}" for name in hidden]
        self.calls: Counter[str] = Counter()
        self.arguments: dict[str, tuple[object, ...]] = {}  # of the last call
        self.fails = dict(fails or {})
        super().__init__(Partial(ctypes.CDLL(path), names), path)

    def code(self, name: str, *arguments: object) -> int:
        self.calls[name] += 1
        self.arguments[name] = arguments
        return int(self.fails[name]) if name in self.fails else super().code(name, *arguments)

    def free(self, name: str, handle: int) -> None:
        self.calls[name] += 1
        super().free(name, handle)
