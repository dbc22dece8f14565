"""Secure access to the files of a cache directory that only its owner can write to.

All operations use a descriptor of the directory, so that it cannot be replaced after the check.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from io import BufferedReader

from ep_nnapi.nnapi.files import write_atomically

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK, because opening a FIFO otherwise blocks until there is a writer."""


class UnsafeError(OSError):
    """Another user could have written the file or directory."""


def opened(path: str) -> int:
    """Return a descriptor of the directory; if missing, it is created for its user only.

    Raises OSError; UnsafeError if another user owns it or can write to it.
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
    """Open a regular file of the directory for reading; raises OSError or UnsafeError."""
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
    """Create or replace a file by an atomic write; raises OSError and leaves no partial file."""
    write_atomically(name, parts, folder=folder, mode=0o600)


def _check(found: os.stat_result, name: str) -> None:
    if found.st_uid != os.geteuid():
        raise UnsafeError(f"{name} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeError(f"others can write into {name}; make it mode 0700")
