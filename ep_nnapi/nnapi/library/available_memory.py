"""Memory that a process can still use, as Linux and the control groups of containers tell it."""

from __future__ import annotations

import os
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
