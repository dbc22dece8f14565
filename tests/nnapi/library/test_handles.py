"""Handles free their objects once, in the process that created them, after those that need them."""

from __future__ import annotations

import ctypes
import gc
import os

import pytest

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.handles import Handle, create
from tests.nnapi.library.recorded import Recorded


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
