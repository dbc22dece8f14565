"""The conformance cases beside the repository, on the host runtime in this process."""

import pytest

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
    asked = (case for case in CASES[file]() if case.ops <= NAMES)
    assert not conformance.failures(asked, RUNTIME, REFERENCE, dynamic=dynamic)
