"""Memory that is left, from the files of Linux and of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ep_nnapi.nnapi.library.available_memory import available_memory

MEMINFO = "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable: 3000 kB\nSwapFree: 500 kB\n"
MACHINE = 3500 * 1024


def files(root: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"proc/meminfo": MEMINFO}, MACHINE),
        ({"proc/meminfo": "MemTotal: 9000 kB\n"}, None),  # kernels before 3.14
        ({}, None),
    ],
)
def test_of_a_machine(tmp_path: Path, contents: dict[str, str], expected: int | None):
    assert available_memory(files(tmp_path, contents)) == expected


def group(folder: str, limit: str, use: str) -> dict[str, str]:
    names = ("memory.max", "memory.current", "memory.stat")
    return dict(
        zip(
            (f"sys/fs/cgroup/{folder}{name}" for name in names),
            (f"{limit}\n", f"{use}\n", "anon 7\ninactive_file 50\n"),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (group("a/b/", "1000", "300"), 750),  # what is cached of files can be dropped
        (group("a/b/", "max", "300"), MACHINE),
        (group("a/b/", "1000", "300") | group("a/", "800", "400"), 450),  # the one around it
        (group("", "1000", "300"), 750),  # a container shows its group at the top
        (group("a/b/", "100", "300"), 0),
        (group("c/", "1000", "300"), MACHINE),  # another process's
    ],
)
def test_of_control_groups_2(tmp_path: Path, groups: dict[str, str], expected: int):
    contents = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b\n", **groups}
    assert available_memory(files(tmp_path, contents)) == expected


@pytest.mark.parametrize("name", ["größe".encode(), b"not \xff UTF-8", "two\u2028\rlines".encode()])
def test_names_of_control_groups_are_any_bytes_but_newlines(tmp_path: Path, name: bytes):
    files(tmp_path, group(f"{os.fsdecode(name)}/", "1000", "300"))
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_bytes(b"0::/" + name + b"\n")
    assert available_memory(tmp_path) == 750


def test_of_control_groups_1(tmp_path: Path):
    contents = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:cpu,cpuacct:/a\n3:memory:/a\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n",
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "300\n",
        "sys/fs/cgroup/memory/a/memory.stat": "cache 9\ntotal_inactive_file 50\n",
    }
    assert available_memory(files(tmp_path, contents)) == 750


def test_of_this_machine():
    """Some of it is left: the test runs."""
    found = available_memory()
    assert found is None or found > 0
