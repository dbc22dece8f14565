"""Sessions in a forked process, which has none of their threads."""

from __future__ import annotations

import ctypes
import os
from weakref import WeakSet

_sessions: WeakSet[object] = WeakSet()


def keep_in_children(session: object) -> None:
    """Has forked processes never release an object that owns a session of ONNX Runtime.

    The release waits for the session's threads, which a forked process does not have.
    """
    _sessions.add(session)


def _keep() -> None:
    for session in tuple(_sessions):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))  # also at the end of the process


os.register_at_fork(after_in_child=_keep)
