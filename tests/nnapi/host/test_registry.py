"""The host runtime with its devices."""

import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host.registry import host_runtime


def test_the_reference_device_is_first():
    """A C program that names no device gets it, and may fork; see `runtime`."""
    found = host_runtime().devices()
    expected = [("nnapi-reference", DeviceCode.CPU), ("host-cpu", DeviceCode.CPU)]
    assert [(d.name, d.type) for d in found] == expected


def test_all_devices_have_the_level_of_the_runtime():
    assert {d.feature_level for d in host_runtime(3).devices()} == {3}


@pytest.mark.parametrize("level", [0, 9])
def test_other_levels_are_refused(level):
    with pytest.raises(OptionError, match=f"feature level {level} is not one of 1 to 8"):
        host_runtime(level)


def test_a_name_that_no_package_knows_is_refused_with_those_that_are():
    with pytest.raises(OptionError, match=r"'host-tpu' cannot be opened by its name; .*host-gpu"):
        host_runtime(names=("host-tpu",))
