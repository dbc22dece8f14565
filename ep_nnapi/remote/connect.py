"""Runtimes by their names: adb, adb:SERIAL, exec:COMMAND."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import cache, partial

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.remote.adb import NO_PHONE, agent_command, phones
from ep_nnapi.remote.runtime import RemoteRuntime

_lock = ForkableLock()


def remote_runtime(name: str) -> RemoteRuntime:
    """The runtime of that name, one for all sessions and threads of this process.

    Raises OptionError if there is no such phone, or if no agent answers.
    """
    with _lock:
        return _opened(name)


@cache
def _opened(name: str) -> RemoteRuntime:
    return RemoteRuntime(name, _command(name))


def reached(name: str) -> tuple[str, ...]:
    """The runtimes that `name` stands for: of adb that of each phone.

    Raises OptionError if no phone is attached.
    """
    found = tuple(f"adb:{serial}" for serial in phones()) if name == "adb" else (name,)
    if not found:
        raise OptionError(NO_PHONE)
    return found


def _command(name: str) -> Callable[[], list[str]]:
    how, _, rest = name.partition(":")
    if how == "adb":
        return partial(agent_command, rest)
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise OptionError(f"runtime {name}: the command is no shell's: {error}") from None
    if not words:
        raise OptionError(f"runtime {name!r}: a command is missing after exec:")
    return words.copy
