"""The runtimes that tests run on: the host runtime, and its C API through the client of it.

`pytest --runtime library` (or EP_NNAPI_TEST_RUNTIME=library) runs every test of the provider and of
operators on the second one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

import ep_nnapi
from ep_nnapi.nnapi.host.registry import host_runtime
from ep_nnapi.nnapi.library import LibraryRuntime, load
from ep_nnapi.nnapi.runtime import Runtime

VARIABLE = "EP_NNAPI_TEST_RUNTIME"
LIBRARY = "library"
HOST = "host"


def on_library() -> bool:
    """The tests run through the C API."""
    return os.environ.get(VARIABLE, HOST) == LIBRARY


host_only = pytest.mark.skipif(
    f"os.environ.get({VARIABLE!r}) == {LIBRARY!r}",  # text: the option is read later than this file
    reason="about the host runtime in this process",
)
"""Tests of what the C API does not have: float16 emulated, one runtime object for all sessions."""


def library() -> Runtime:
    """This project's own library, in this process."""
    return LibraryRuntime(load(ep_nnapi.libneuralnetworks_path()))


def runtime() -> Runtime:
    """The runtime that the tests run on."""
    return library() if on_library() else host_runtime()


RUNTIMES = {HOST: host_runtime, LIBRARY: library}


@contextmanager
def installed() -> Iterator[None]:
    """Sessions that ask for the host runtime get the one that the tests run on."""
    from ep_nnapi.provider import devices

    with patch.dict(devices.RUNTIMES, {"host": runtime} if on_library() else {}):
        yield
