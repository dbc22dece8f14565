"""The devices that this package adds to the host runtime, as installed."""

from __future__ import annotations

from math import inf

import pytest

from ep_nnapi.nnapi.host.registry import is_named_only, least_work, sources
from ep_nnapi.ort_devices.device import LARGE
from ep_nnapi.ort_devices.source import ORT_DEVICES


def test_the_installed_package_registers_its_devices():
    assert ORT_DEVICES in sources()


@pytest.mark.parametrize(
    ("name", "named_only", "work"),
    [
        ("host-cpu", False, LARGE),
        ("host-gpu", True, 0),
        ("ort:SomeProvider", True, 0),
        ("nnapi-reference", False, inf),
        ("another", False, inf),
    ],
)
def test_devices_by_name(name: str, named_only: bool, work: float):
    assert (is_named_only(name), least_work(name)) == (named_only, work)
