"""The conformance cases beside the repository, on the host runtime in this process."""

import pytest

from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.kernels.table import KERNELS
from tests.cases import each
from tests.nnapi import conformance

RUNTIME = HostRuntime()
(REFERENCE,) = RUNTIME.devices()
NAMES = {spec.name for spec, _ in KERNELS}
CASES = conformance.folder_cases()


@pytest.mark.skipif(not CASES, reason="needs ../shared/nnapi_conformance")
@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamic"])
@each("file", sorted(CASES))
def test_cases_of(file, dynamic):
    """Every case of one file whose operations are there; `dynamic`: outputs of unknown shape."""
    wrong = {}
    for case in CASES[file]():
        apart = case.expect_failure or case.ops & {"RANK", "IF", "WHILE"}
        if not case.ops <= NAMES or (dynamic and apart):
            continue
        found = _outcome(case, dynamic)
        if found:
            wrong[case.name] = found
    assert not wrong


def _outcome(case, dynamic) -> list[str]:
    """Errors of a case; empty when it passes."""
    try:
        model = conformance.model(case, dynamic=dynamic)
        results = RUNTIME.compile(model, REFERENCE).run(conformance.inputs(case))
    except (SpecError, RuntimeFailure) as error:
        timely = not case.timeout_test or "MISSED_DEADLINE" in str(error)
        return [] if case.expect_failure and timely else [str(error)]
    return ["it should fail"] if case.expect_failure else conformance.check(case, results)
