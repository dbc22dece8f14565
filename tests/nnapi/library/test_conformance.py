"""The conformance cases beside the repository, on the host runtime through its C API."""

import pytest

from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from tests.nnapi import conformance
from tests.runtimes import library

CASES = conformance.folder_cases()


@pytest.mark.long
@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamic"])
def test_every_case(dynamic: bool) -> None:
    """In one process and with one runtime; `dynamic`: outputs of unknown dimensions."""
    runtime = library()
    device = next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)
    wrong = {}
    for case in (case for read in CASES.values() for case in read()):
        if dynamic and (case.expect_failure or case.ops & {"RANK", "IF", "WHILE"}):
            continue
        try:
            made = runtime.compile(conformance.model(case, dynamic=dynamic), device)
            results = made.run(conformance.inputs(case))
        except (SpecError, RuntimeFailure) as error:
            found = [] if case.expect_failure else [str(error)]
        else:
            failed = conformance.check(case, results)
            found = ["it should fail"] if case.expect_failure else failed
        if found:
            wrong[case.name] = found
    assert not wrong
