"""The device host-openvino on an Intel processor: sessions, and the conformance cases.

`make test-openvino` installs the extra; elsewhere these are skipped.
"""

from collections import Counter
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
from tests.ort_devices.test_conformance import data_type

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


def wrong(case) -> list[str]:
    compiled = runtime().compile(conformance.model(case), runtime().devices()[0])
    return conformance.check(case, compiled.run(conformance.inputs(case)))


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
def test_cases_that_it_takes_pass() -> None:
    every, some, found = Counter[str](), Counter[str](), dict[str, list[str]]()
    openvino = runtime().devices()[0]
    for cases in CASES.values():
        for case in cases():
            kind = data_type(case)
            if case.expect_failure or kind not in LEAST:
                continue
            every[kind] += 1
            if all(runtime().supported(conformance.model(case), openvino)):
                some[kind] += 1
                found[case.name] = wrong(case)
    assert not {name: what for name, what in found.items() if what}
    assert all(some[kind] / every[kind] >= share for kind, share in LEAST.items())
