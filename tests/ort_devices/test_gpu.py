"""The device host-gpu on a GPU or a software Vulkan: sessions, and the conformance cases.

`make test-gpu` sets up SwiftShader, whose results are repeatable; a first run compiles shaders.
"""

from functools import cache

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.ort_devices.plugin import PluginDevice, plugin_device
from tests.cli.command import DIGITS
from tests.nnapi import conformance
from tests.ort_devices.networks import chain, feed

NAME = "host-gpu"
LEAST = 0.6
"""Share of the float32 cases that the device takes."""
CASES = conformance.folder_cases()
LOOPS = RunOptions(loop_timeout_ns=60_000_000_000)  # its first round compiles shaders


def available() -> PluginDevice | None:
    try:
        return plugin_device(NAME)
    except OptionError:
        return None


GPU = available()
pytestmark = pytest.mark.skipif(
    GPU is None, reason="needs the extra webgpu and a GPU or a software Vulkan: make test-gpu"
)


@cache
def runtime() -> HostRuntime:
    return HostRuntime((plugin_device(NAME), ReferenceDevice()))


def test_it_computes_as_nnapi_reference() -> None:
    gpu, reference = runtime().devices()
    assert (gpu.name, gpu.type) == (NAME, DeviceCode.GPU)
    model = chain()
    (got,), (wanted,) = (runtime().compile(model, d).run(feed(model)) for d in (gpu, reference))
    np.testing.assert_allclose(got, wanted, 0, 1e-5)  # sums of 36 products in another order


def test_sessions_run_on_it() -> None:
    result = ep_nnapi.run(DIGITS, device=NAME)
    assert {c.device for c in result.report.clusters} == {NAME}
    assert result.report.taken == 8
    assert not result.verdict.negative


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
