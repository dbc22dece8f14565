"""The growing file in memory: what is written is in the file, and what is given back is not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ep_nnapi.nnapi.library import memory_file
from ep_nnapi.nnapi.library.memory_file import PAGE, MemoryFile


def test_parts_begin_at_pages_and_are_in_the_file() -> None:
    file = MemoryFile()
    first, mapped = file.extend(1)
    second, other = file.extend(PAGE + 1)
    third, _ = file.extend(PAGE)
    assert (first, second, third) == (0, PAGE, 3 * PAGE)
    assert (len(mapped), len(other)) == (PAGE, 2 * PAGE)
    mapped[:3] = b"abc"
    other[-3:] = b"xyz"
    assert os.pread(file.descriptor, 3, first) == b"abc"
    assert os.pread(file.descriptor, 3, third - 3) == b"xyz"


def blocks(file: MemoryFile) -> int:
    return os.fstat(file.descriptor).st_blocks * 512


def test_memory_given_back_is_free_and_the_rest_stays() -> None:
    file = MemoryFile()
    for _ in range(2):
        _, mapped = file.extend(4 * PAGE)
        mapped[:] = b"x" * len(mapped)
        mapped.close()
    assert blocks(file) == 8 * PAGE
    file.give_back(0, 4 * PAGE, os.getpid())
    assert blocks(file) == 4 * PAGE
    assert os.pread(file.descriptor, 1, 0) == b"\0"
    assert os.pread(file.descriptor, 1, 4 * PAGE) == b"x"
    assert os.fstat(file.descriptor).st_size == 8 * PAGE  # offsets of later parts stay


def test_a_fork_gives_nothing_back() -> None:
    file = MemoryFile()
    file.extend(PAGE)
    file.give_back(0, PAGE, os.getpid() + 1)
    assert blocks(file) == PAGE


def test_nothing_is_created_before_it_is_needed() -> None:
    MemoryFile().give_back(0, PAGE, os.getpid())
    before = len(os.listdir("/proc/self/fd"))
    file = MemoryFile()
    assert len(os.listdir("/proc/self/fd")) == before
    file.extend(1)
    assert len(os.listdir("/proc/self/fd")) == before + 1


def test_the_file_is_closed_with_the_object() -> None:
    file = MemoryFile()
    file.extend(1)
    link = f"/proc/self/fd/{file.descriptor}"
    inode = os.stat(link).st_ino
    del file
    assert not os.path.exists(link) or os.stat(link).st_ino != inode


def test_without_memory_it_raises_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = MemoryFile()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        file.extend(PAGE)
    monkeypatch.undo()
    assert file.extend(1)[0] == 0


def test_a_temporary_file_where_memory_files_are_not_permitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def forbidden(*_: object) -> int:
        raise PermissionError(errno.EPERM, "a sandbox")

    monkeypatch.setattr(os, "memfd_create", forbidden)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = MemoryFile()
    start, mapped = file.extend(3)
    mapped[:3] = b"abc"
    assert os.pread(file.descriptor, 3, start) == b"abc"
    assert list(tmp_path.iterdir()) == []  # it has no name


def test_more_than_is_available_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit it is not; the file stays usable."""
    monkeypatch.setattr(memory_file, "available_memory", lambda: 2 * PAGE)
    file = MemoryFile()
    with pytest.raises(OSError, match=os.strerror(errno.ENOMEM)) as refused:
        file.extend(2 * PAGE + 1)
    assert refused.value.errno == errno.ENOMEM
    assert file.extend(2 * PAGE)[0] == 0
