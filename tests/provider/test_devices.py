"""Selection of a session's device by name and flags."""

import pytest

from ep_nnapi import OptionError
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.profile.examples import SampleDevice, everything
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.provider.devices import (
    choose_device,
    device_order,
    devices,
    fallback_device,
    open_runtime,
)
from tests.faulty import FAULTY, FaultyDevice
from tests.runtimes import host_only

BOTH = HostRuntime([ReferenceDevice(), FaultyDevice()])


@host_only
def test_the_host_runtime_is_opened_once():
    assert open_runtime("host") is open_runtime("host")
    assert REFERENCE_DEVICE in {d.name for d in devices()}


@pytest.mark.parametrize(
    ("name", "flags", "chosen"),
    [
        (None, NnapiFlag.NONE, FAULTY),  # an accelerator before a CPU, whatever the order
        (REFERENCE_DEVICE, NnapiFlag.NONE, REFERENCE_DEVICE),
        (None, NnapiFlag.CPU_ONLY, REFERENCE_DEVICE),
        (None, NnapiFlag.CPU_DISABLED, FAULTY),
        (FAULTY, NnapiFlag.CPU_DISABLED, FAULTY),
    ],
)
def test_choice(name: str | None, flags: NnapiFlag, chosen: str):
    assert choose_device(BOTH, name, flags).name == chosen


DRIVERS = HostRuntime(
    [
        ReferenceDevice(),
        SampleDevice("first", everything, DeviceCode.CPU),
        SampleDevice("second", everything, DeviceCode.CPU),
    ]
)


@pytest.mark.parametrize(
    ("name", "flags", "chosen"),
    [
        (None, NnapiFlag.NONE, "first"),
        ("cpu", NnapiFlag.NONE, "first"),
        (None, NnapiFlag.CPU_ONLY, REFERENCE_DEVICE),
    ],
)
def test_the_cpu_of_a_driver_comes_before_nnapis_own(
    name: str | None, flags: NnapiFlag, chosen: str
):
    """Android's sample drivers are of type CPU, as those of engines for phone CPUs."""
    assert choose_device(DRIVERS, name, flags).name == chosen


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("vpu", NnapiFlag.NONE, "device 'vpu' is unknown; there are nnapi-reference, faulty"),
        ("fault", NnapiFlag.NONE, "did you mean faulty"),
        (FAULTY, NnapiFlag.CPU_ONLY, "CPU_ONLY leaves no device"),
        (REFERENCE_DEVICE, NnapiFlag.CPU_DISABLED, "CPU_DISABLED leaves no device"),
    ],
)
def test_no_device_is_left(name: str, flags: NnapiFlag, message: str):
    with pytest.raises(OptionError, match=message):
        choose_device(BOTH, name, flags)


def test_the_fallback_is_the_reference_device():
    _, device = fallback_device()
    assert (device.name, device.type) == (REFERENCE_DEVICE, DeviceCode.CPU)


@host_only
@pytest.mark.fast_devices
@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, ("host-cpu", REFERENCE_DEVICE)),
        ({"device": "host-cpu"}, ("host-cpu",)),
        ({"device": REFERENCE_DEVICE}, (REFERENCE_DEVICE,)),
        ({"flags": "CPU_ONLY"}, (REFERENCE_DEVICE,)),
    ],
)
def test_the_order_in_which_sessions_use_devices(options: dict[str, str], order: tuple[str, ...]):
    assert device_order(parse(options)) == order
