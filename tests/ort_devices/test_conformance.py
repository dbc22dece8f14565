"""The conformance cases beside the repository on host-cpu: those that it takes pass."""

from collections import Counter

import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.lowering import LOWERINGS
from tests.nnapi import conformance

RUNTIME = HostRuntime((CpuDevice(threads=1),))
(DEVICE,) = RUNTIME.devices()
CASES = conformance.folder_cases()


def taken(case) -> bool:
    """True if the device takes every operation; cases that must be refused have no answer."""
    return not case.expect_failure and all(RUNTIME.supported(conformance.model(case), DEVICE))


def wrong(case) -> list[str]:
    """Errors of the results."""
    try:
        compiled = RUNTIME.compile(conformance.model(case), DEVICE)
        results = compiled.run(conformance.inputs(case))
    except RuntimeFailure as error:
        return [str(error)]
    return conformance.check(case, results)


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("file", sorted(CASES))
def test_cases_that_the_device_takes_pass(file):
    found = {case.name: wrong(case) for case in CASES[file]() if taken(case)}
    assert not {name: what for name, what in found.items() if what}


LEAST = 0.95
"""Share of the cases that the device takes, of each type and of operations with a lowering."""


def operations(case) -> set[OperationSpec]:
    return {operation.spec for operation in conformance.model(case).operations}


def data_type(case) -> str:
    found = {operand.type for operand in conformance.model(case).operands}
    if OperandCode.TENSOR_FLOAT16 in found:
        return "float16"
    if any(code.name.startswith("TENSOR_QUANT8") for code in found):
        return "quant8"
    return "float32" if OperandCode.TENSOR_FLOAT32 in found else "other"


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
def test_the_device_takes_most_cases_of_float32_and_quant8():
    lowered = {spec for spec, _ in LOWERINGS}
    every, some = Counter[str](), Counter[str]()
    for file in CASES.values():
        for case in file():
            if not case.expect_failure and lowered >= operations(case):
                every[data_type(case)] += 1
                some[data_type(case)] += taken(case)
    shares = {each: some[each] / every[each] for each in ("float32", "quant8")}
    assert min(shares.values()) >= LEAST, shares
