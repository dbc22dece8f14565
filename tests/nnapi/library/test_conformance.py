"""The conformance cases beside the repository, on the host runtime through its C API."""

import pytest

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
    asked = (case for read in CASES.values() for case in read())
    assert not conformance.failures(asked, runtime, device, dynamic=dynamic)
