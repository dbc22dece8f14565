"""A folder that only its user can write into: files of it are read and written, nothing else.

Everything goes by the folder's descriptor, so what is checked is what is used.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from io import BufferedReader

from ep_nnapi.files import write_atomically

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a FIFO waits until somebody writes into it."""


class UnsafeError(OSError):
    """Somebody else could have written it."""


def opened(path: str) -> int:
    """A descriptor of the folder, which is made for its user alone where it is missing.

    Raises OSError, UnsafeError where others own it or can write into it.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = os.open(path, _FOLDER)
    try:
        _check(os.fstat(folder), path)
    except UnsafeError:
        os.close(folder)
        raise
    return folder


def open_file(folder: int, name: str) -> BufferedReader:
    """A regular file of the folder; raises OSError, UnsafeError as `opened`."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeError(f"{name} is no regular file")
        _check(found, name)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def write_file(folder: int, name: str, parts: Iterable[bytes | memoryview]) -> None:
    """Makes or replaces a file, as a whole or not at all; raises OSError and leaves nothing."""
    write_atomically(name, parts, folder=folder, mode=0o600)


def _check(found: os.stat_result, name: str) -> None:
    if found.st_uid != os.geteuid():
        raise UnsafeError(f"{name} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeError(f"others can write into {name}; make it mode 0700")
