"""What owns a session is released in the process that made it, and in no other."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from ep_nnapi.sessions.forks import keep_in_children

SECONDS = 60


def in_child(check: Callable[[], int]) -> int:
    """The exit code of a forked process that exits with `check()`."""
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os._exit(check())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Owner:
    """Counts the objects that were released."""

    released = 0

    def __init__(self) -> None:
        keep_in_children(self)

    def __del__(self) -> None:
        Owner.released += 1


def test_a_forked_process_releases_its_own_sessions_alone() -> None:
    Owner.released = 0
    owners = [Owner(), Owner()]

    def check() -> int:
        own = Owner()
        owners.clear()
        del own
        return Owner.released

    assert in_child(check) == 1
    owners.pop()
    assert Owner.released == 1


def test_a_process_forked_from_a_forked_one_keeps_the_sessions_of_both() -> None:
    Owner.released = 0
    owners = [Owner()]

    def check() -> int:
        owners.append(Owner())
        return in_child(lambda: owners.clear() or Owner.released)

    assert in_child(check) == 0
