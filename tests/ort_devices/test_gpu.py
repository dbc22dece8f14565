"""The device host-gpu on a GPU or a software Vulkan: sessions, and the conformance cases.

`make test-gpu` sets up SwiftShader, whose results are repeatable; a first run compiles shaders.
"""

from functools import cache

import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.ort_devices.plugin import plugin_device
from tests.nnapi import conformance
from tests.ort_devices.test_plugin import assert_computes, available, session_on

NAME = "host-gpu"
LEAST = 0.6
"""Share of the float32 cases that the device takes."""
CASES = conformance.folder_cases()
LOOPS = RunOptions(loop_timeout_ns=60_000_000_000)  # its first round compiles shaders


pytestmark = pytest.mark.skipif(
    available(NAME) is None,
    reason="needs the extra webgpu and a GPU or a software Vulkan: make test-gpu",
)


@cache
def runtime() -> HostRuntime:
    return HostRuntime((plugin_device(NAME), ReferenceDevice()))


def test_it_computes_as_nnapi_reference() -> None:
    assert_computes(NAME, DeviceCode.GPU)


def test_sessions_run_on_it() -> None:
    session_on(NAME)


def floats(*files: str) -> list[object]:
    cases = (case for file in files or CASES for case in CASES[file]())
    return [case for case in cases if conformance.data_type(case) == "float32"]


def gpu() -> conformance.Examined:
    return conformance.Examined(runtime(), runtime().devices()[0], LOOPS)


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
def test_it_takes_most_cases_of_float32() -> None:
    assert gpu().share(floats()) >= LEAST


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("file", sorted(CASES))
def test_cases_of_float32_that_it_takes_pass(file: str) -> None:
    gpu().assert_right(floats(file))
