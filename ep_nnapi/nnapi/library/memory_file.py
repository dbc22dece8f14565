"""A growing file in memory, whose parts can be mapped and given back."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
# Limit, use and the line of memory.stat with what can be dropped, of control groups 2 and 1.
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory(root: Path = _ROOT) -> int | None:
    """Returns the bytes that can be written before the kernel ends processes; None if unknown.

    root   the file system's, for tests
    """
    found = [*_of_the_machine(root), *_of_control_groups(root)]
    return max(0, min(found)) if found else None


def _of_the_machine(root: Path) -> Iterator[int]:
    """Yields what is free or can be freed, swap included."""
    values = {}
    for line in _lines(root / "proc" / "meminfo"):
        name, _, value = line.partition(":")
        values[name] = value
    if "MemAvailable" in values:
        yield sum(1024 * int(values.get(n, "0").split()[0]) for n in ("MemAvailable", "SwapFree"))


def _of_control_groups(root: Path) -> Iterator[int]:
    """Yields what is left below the limit of each group that the process is in."""
    base = root / "sys" / "fs" / "cgroup"
    for line in _lines(root / "proc" / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = base / "memory" if controllers else base
        group = top / path.strip("/")
        # inside of a container the path is often that of the machine, and its group is at the top
        for folder in {group, *group.parents, top}:
            if folder.is_relative_to(top):
                yield from _below_limit(folder)


def _below_limit(folder: Path) -> Iterator[int]:
    for limit_file, use_file, droppable in _GROUP_FILES:
        limit, use = (_number(folder / name) for name in (limit_file, use_file))
        if limit is None or use is None:
            continue
        statistics = (line.split() for line in _lines(folder / "memory.stat"))
        yield limit - use + sum(int(words[1]) for words in statistics if words[0] == droppable)


def _number(path: Path) -> int | None:
    """Returns the number in a file; None for `max` or no file."""
    (text, *_) = [*_lines(path), ""]
    return int(text) if text.strip().isdecimal() else None


def _lines(path: Path) -> list[str]:
    """Returns the lines that are not empty; none if the file cannot be read.

    They are decoded as paths are, because names of control groups are any bytes but newlines.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [os.fsdecode(line) for line in lines if line]


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
