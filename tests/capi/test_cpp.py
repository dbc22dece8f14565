"""C++ programs whose objects own their handles: threads, forks, every way to end, nothing left."""

import shutil
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi.header import write_header
from tests.capi.programs import LIBRARY, SOURCES, compiled, run

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
PARTS = [
    "threads",
    "global_objects",
    "unfreed",
    "exit_amid",
    "quick_exit_amid",
    "fork_idle",
    "fork_busy",
    "fork_products",
    "fork_host_cpu",
]
LEFT_BEHIND = 2_000_000
"""Bytes that 2,000 cycles may leave: 1,000 a cycle, less than any of its objects takes."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cpp")
    write_header(directory)
    return directory


@pytest.fixture(scope="module")
def owning(directory: Path) -> Path:
    return compiled(directory, SOURCES / "owning.cc", "g++", "-std=c++17")


@pytest.mark.parametrize("part", PARTS)
def test_a_program_computes_and_ends_in_silence(owning: Path, part: str) -> None:
    done = run(owning, part)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ten_threads_share_a_cache(owning: Path, tmp_path: Path) -> None:
    done = run(owning, "cache", CACHE=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_library_may_be_unloaded_in_eight_threads(directory: Path) -> None:
    loading = compiled(directory, SOURCES / "loading.cc", "g++", "-Wl,--as-needed")
    done = run(loading, LIBRARY)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.long
def test_two_thousand_cycles_leave_nothing_behind_and_stay_as_fast(owning: Path) -> None:
    done = run(owning, "cycles")
    assert (done.returncode, done.stderr) == (0, "")
    left, slower = map(float, done.stdout.split())
    assert left < LEFT_BEHIND
    assert slower < 3  # what took longer with each cycle would be eight times as slow
