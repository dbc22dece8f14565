"""The device host-openvino on an Intel processor: sessions, and the conformance cases.

`make test-openvino` installs the extra; elsewhere these are skipped.
"""

from functools import cache

import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.ort_devices.plugin import plugin_device
from tests.nnapi import conformance
from tests.ort_devices.test_plugin import assert_computes, available, session_on

NAME = "host-openvino"
LEAST = {"float32": 0.85, "quant8": 0.55}
"""Shares of the cases that the device takes, by type."""
CASES = conformance.folder_cases()


pytestmark = pytest.mark.skipif(
    available(NAME) is None, reason="needs the extra openvino and an Intel processor"
)


@cache
def runtime() -> HostRuntime:
    return HostRuntime((plugin_device(NAME), ReferenceDevice()))


def test_it_computes_as_nnapi_reference() -> None:
    """In float32, also where the processor has bfloat16."""
    assert_computes(NAME, DeviceCode.ACCELERATOR, rtol=1e-6)


def test_sessions_run_on_it() -> None:
    session_on(NAME)


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("kind", LEAST)
def test_cases_that_it_takes_pass(kind: str) -> None:
    openvino = conformance.Examined(runtime(), runtime().devices()[0])
    cases = (case for file in CASES.values() for case in file())
    asked = [case for case in cases if conformance.data_type(case) == kind]
    assert openvino.assert_right(asked) >= LEAST[kind]
