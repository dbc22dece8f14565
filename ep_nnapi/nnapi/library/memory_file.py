"""A growing file in memory, whose parts can be mapped and given back."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
import weakref

from ep_nnapi.nnapi.library.available_memory import available_memory

PAGE = mmap.ALLOCATIONGRANULARITY
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE of Linux
_LIBC = ctypes.CDLL(None)


class MemoryFile:
    """A file without a name; created when it is first extended, closed with this object."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._end = 0

    @property
    def descriptor(self) -> int:
        """The file's descriptor."""
        if self._descriptor is None:
            self._descriptor = _create()
            weakref.finalize(self, os.close, self._descriptor).atexit = False
        return self._descriptor

    def extend(self, size: int) -> tuple[int, mmap.mmap]:
        """Add `size` bytes, rounded up to pages; returns their offset and a writable mapping.

        Raises OSError if there is not enough memory.
        """
        start, size = self._end, -(-size // PAGE) * PAGE
        left = available_memory()
        if left is not None and size > left:  # Linux reserves it all the same, and ends processes
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        # reserves the memory: where it is only promised, writing to it would end the process
        os.posix_fallocate(self.descriptor, start, size)
        mapped = mmap.mmap(self.descriptor, size, mmap.MAP_SHARED, offset=start)
        self._end = start + size
        return start, mapped

    def give_back(self, start: int, size: int, owner: int) -> None:
        """Release the memory of a part of the file; does nothing in a fork of process `owner`."""
        if os.getpid() != owner or self._descriptor is None:
            return
        punch = getattr(_LIBC, "fallocate64", None) or _LIBC.fallocate
        offset, length = ctypes.c_int64(start), ctypes.c_int64(size)
        # no error where the file system cannot: the memory is then kept until the file is closed
        punch(self._descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, offset, length)


def _create() -> int:
    """The descriptor of a new file: in memory, or a temporary one where that is not possible."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("ep-nnapi weights", os.MFD_CLOEXEC)
        except OSError:  # not permitted by a sandbox
            pass
    descriptor, path = tempfile.mkstemp(prefix="ep-nnapi-")
    os.unlink(path)
    return descriptor
