"""The growing file in memory: what is written is in the file, and what is given back is not."""

import ctypes
import errno
import gc
import os
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.library import binding, memory_file
from ep_nnapi.nnapi.library.binding import SYSTEM, Handle, create, load
from ep_nnapi.nnapi.library.memory_file import PAGE, MemoryFile
from tests.nnapi.library.recorded import Recorded


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


def test_a_temporary_file_where_memory_files_are_not_permitted(monkeypatch, tmp_path):
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


class Log:
    """Functions that only note which objects are freed."""

    def __init__(self) -> None:
        self.freed: list[tuple[str, int]] = []

    def free(self, name: str, handle: int) -> None:
        self.freed.append((name, handle))


def test_an_object_is_freed_with_its_handle() -> None:
    log = Log()
    handle = Handle(log, "Model", 7)
    assert (handle.value, log.freed) == (7, [])
    del handle
    gc.collect()
    assert log.freed == [("Model_free", 7)]


def test_a_handle_outlives_those_that_need_it() -> None:
    log = Log()
    model = Handle(log, "Model", 1)
    compilation = Handle(log, "Compilation", 2, model)
    del model
    gc.collect()
    assert log.freed == []
    del compilation
    gc.collect()
    assert log.freed == [("Compilation_free", 2), ("Model_free", 1)]


def test_a_forked_child_frees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    handle = Handle(log, "Model", 7)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    del handle
    gc.collect()
    assert log.freed == []


def test_created_objects_are_freed_by_their_kind() -> None:
    functions = Recorded()
    model = create(functions, "Model_create", needs=())
    assert model.value
    assert functions.calls == {"getRuntimeFeatureLevel": 1, "Model_create": 1}
    del model
    gc.collect()
    assert functions.calls["Model_free"] == 1


def test_a_function_that_fails_makes_nothing() -> None:
    functions = Recorded(fails={"Model_create": ResultCode.OUT_OF_MEMORY})
    with pytest.raises(RuntimeFailure) as caught:
        create(functions, "Model_create", needs=())
    assert caught.value.code == "ANEURALNETWORKS_OUT_OF_MEMORY"
    gc.collect()
    assert not functions.calls["Model_free"]


def test_a_null_pointer_with_no_error_is_a_failure() -> None:
    functions = Recorded(fails={"Model_create": ResultCode.NO_ERROR})
    with pytest.raises(RuntimeFailure, match="returns a null pointer") as caught:
        create(functions, "Model_create", needs=())
    assert caught.value.code == "ANEURALNETWORKS_UNEXPECTED_NULL"
    assert ctypes.c_void_p().value is None


OWN = ep_nnapi.libneuralnetworks_path()
fresh = load.__wrapped__  # without what this process has loaded before


def test_a_library_is_loaded_once() -> None:
    assert load(OWN) is load(OWN)
    assert load(OWN).path == OWN
    assert load(OWN).feature_level == 8


def test_a_relative_path_is_one_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a name that the linker searches."""
    monkeypatch.chdir(Path(OWN).parent)
    assert fresh(Path(OWN).name).path == OWN
    monkeypatch.chdir("/")
    with pytest.raises(OptionError, match=r"runtime libc\.so\.6: no such file"):
        fresh("libc.so.6")


def test_a_folder_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no such file; name a libneuralnetworks\.so, system or"):
        fresh(str(tmp_path))


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "libneuralnetworks.so"
    text.write_text("not a library")
    with pytest.raises(OptionError, match=f"runtime {text} cannot be loaded: "):
        fresh(str(text))


def test_the_systems_is_the_first_that_can_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "SYSTEM_PATHS", ("/nowhere/a.so", OWN, "/nowhere/b.so"))
    assert fresh(SYSTEM).path == OWN


def test_where_there_is_none_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "SYSTEM_PATHS", ("/nowhere/a.so", "/nowhere/b.so"))
    with pytest.raises(OptionError, match=r"runtime system: there is no .* name a library's path"):
        fresh(SYSTEM)
