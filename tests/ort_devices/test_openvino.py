"""The device host-openvino on an Intel processor: sessions, and the conformance cases.

`make test-openvino` installs the extra; elsewhere these are skipped.
"""

from functools import cache

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.ort_devices.plugin import PluginDevice, plugin_device
from tests.cli.command import DIGITS
from tests.nnapi import conformance
from tests.ort_devices.networks import chain, feed

NAME = "host-openvino"
LEAST = {"float32": 0.85, "quant8": 0.55}
"""Shares of the cases that the device takes, by type."""
CASES = conformance.folder_cases()


def available() -> PluginDevice | None:
    try:
        return plugin_device(NAME)
    except OptionError:
        return None


pytestmark = pytest.mark.skipif(
    available() is None, reason="needs the extra openvino and an Intel processor"
)


@cache
def runtime() -> HostRuntime:
    return HostRuntime((plugin_device(NAME), ReferenceDevice()))


def test_it_computes_as_nnapi_reference() -> None:
    """In float32, also where the processor has bfloat16."""
    openvino, reference = runtime().devices()
    assert (openvino.name, openvino.type) == (NAME, DeviceCode.ACCELERATOR)
    model = chain()
    (got,), (wanted,) = (
        runtime().compile(model, d).run(feed(model)) for d in (openvino, reference)
    )
    np.testing.assert_allclose(got, wanted, 1e-6, 1e-5)  # sums of 36 products in another order


def test_sessions_run_on_it() -> None:
    result = ep_nnapi.run(DIGITS, device=NAME)
    assert {c.device for c in result.report.clusters} == {NAME}
    assert result.report.taken == 8
    assert not result.verdict.negative


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("kind", LEAST)
def test_cases_that_it_takes_pass(kind: str) -> None:
    openvino = conformance.Examined(runtime(), runtime().devices()[0])
    cases = (case for file in CASES.values() for case in file())
    asked = [case for case in cases if conformance.data_type(case) == kind]
    openvino.assert_right(asked)
    assert openvino.share(asked) >= LEAST[kind]
