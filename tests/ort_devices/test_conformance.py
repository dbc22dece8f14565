"""The conformance cases beside the repository on host-cpu: those that it takes pass."""

import pytest

from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.lowering import LOWERINGS
from tests.nnapi import conformance

RUNTIME = HostRuntime((CpuDevice(threads=1),))
HOST_CPU = conformance.Examined(RUNTIME, *RUNTIME.devices())
CASES = conformance.folder_cases()


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("file", sorted(CASES))
def test_cases_that_the_device_takes_pass(file):
    HOST_CPU.assert_right(CASES[file]())


LEAST = 0.95
"""Share of the cases that the device takes, of each type and of operations with a lowering."""


def operations(case) -> set[OperationSpec]:
    return {operation.spec for operation in conformance.model(case).operations}


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("kind", ["float32", "quant8"])
def test_the_device_takes_most_cases(kind: str):
    lowered = {spec for spec, _ in LOWERINGS}
    cases = (case for file in CASES.values() for case in file())
    asked = (c for c in cases if lowered >= operations(c) and conformance.data_type(c) == kind)
    assert HOST_CPU.share(asked) >= LEAST
