"""Compatibility of compiled models: all pairs of prepared and available level, formats, devices."""

import pytest

from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device
from ep_nnapi.provider.compatibility import Compatibility, CompiledFor, parse, validate

LEVELS = range(1, 9)


def device(level: int, name: str = "npu") -> Device:
    return Device(name, DeviceCode.ACCELERATOR, "1", level)


@pytest.mark.parametrize("available", LEVELS)
@pytest.mark.parametrize("prepared", LEVELS)
def test_all_pairs_of_levels(prepared: int, available: int):
    """Of a model that needs the level it was prepared for."""
    compiled = CompiledFor(FORMAT_VERSION, prepared, prepared, "npu")
    expected = {
        prepared == available: Compatibility.OPTIMAL,
        prepared < available: Compatibility.PREFER_RECOMPILATION,
        prepared > available: Compatibility.UNSUPPORTED,
    }[True]
    assert compiled.on(device(available)) is expected


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        # prepared for more than the device has, and needs no more than it has
        (CompiledFor(FORMAT_VERSION, 8, 4, "npu"), Compatibility.PREFER_RECOMPILATION),
        (CompiledFor(FORMAT_VERSION, 8, 5, "npu"), Compatibility.UNSUPPORTED),
        (CompiledFor(FORMAT_VERSION - 1, 4, 4, "npu"), Compatibility.UNSUPPORTED),
        (CompiledFor(FORMAT_VERSION + 1, 4, 4, "npu"), Compatibility.UNSUPPORTED),
        (CompiledFor(FORMAT_VERSION, 4, 4, "gpu"), Compatibility.PREFER_RECOMPILATION),
    ],
)
def test_other_needs_formats_and_devices(compiled: CompiledFor, expected: Compatibility):
    assert compiled.on(device(4)) is expected


def test_the_string_is_read_back():
    compiled = CompiledFor(2, 5, 3, "vendor npu = 1")
    assert parse(str(compiled)) == compiled


@pytest.mark.parametrize("info", ["", "format=2", "ep-nnapi format=x level=1 needed=1 device=a"])
def test_a_foreign_string_is_not_applicable(info: str):
    assert parse(info) is None
    assert validate(info) is Compatibility.NOT_APPLICABLE


def test_the_default_device_is_asked():
    assert validate(str(CompiledFor(FORMAT_VERSION, 8, 8, REFERENCE_DEVICE))) is (
        Compatibility.OPTIMAL
    )
