"""A library as a runtime: devices as it lists them, and the default one where it cannot.

`tests/nnapi/test_runtime.py` has what every runtime does.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import DeviceCode, ResultCode, feature_level_code
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.library.runtime import DEFAULT_DEVICE, LibraryRuntime
from ep_nnapi.nnapi.runtime import CompileOptions, Device, RunOptions
from tests.nnapi.build import Q8S, chain, relu, tensor
from tests.nnapi.library.recorded import Recorded

X = np.float32([[-1, 0, 1], [2, -3, 4]])


class Other(Recorded):
    """Its devices report another type, level or name than they have."""

    def __init__(self, kind: int = 2, level: int = 8, name: bytes = b"cpu") -> None:
        self.kind, self.level, self.name = kind, level, ctypes.c_char_p(name)
        super().__init__()

    def code(self, name: str, *arguments: object) -> int:
        code = super().code(name, *arguments)
        into = getattr(arguments[-1], "_obj", None) if arguments else None
        if name == "Device_getType":
            into.value = self.kind
        elif name == "Device_getFeatureLevel":
            into.value = feature_level_code(self.level) if self.level else 26
        elif name == "Device_getName":
            into.value = self.name.value
        return code


def test_devices_are_listed_once() -> None:
    functions = Recorded()
    runtime = LibraryRuntime(functions)
    assert runtime.devices() == runtime.devices()
    assert functions.calls["getDeviceCount"] == 1
    assert LibraryRuntime(functions).devices() == runtime.devices()
    assert functions.calls["getDeviceCount"] == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(4, DeviceCode.ACCELERATOR), (0, DeviceCode.UNKNOWN), (99, DeviceCode.UNKNOWN)],
)
def test_types_that_nnapi_does_not_define_are_unknown(kind: int, expected: DeviceCode) -> None:
    assert {d.type for d in LibraryRuntime(Other(kind)).devices()} == {expected}


def test_a_device_has_at_most_the_level_of_its_library() -> None:
    assert {d.feature_level for d in LibraryRuntime(Other(level=3)).devices()} == {3}
    functions = Other(level=8)
    functions.feature_level = 5
    assert {d.feature_level for d in LibraryRuntime(functions).devices()} == {5}


def test_devices_below_level_1_are_left_out() -> None:
    assert LibraryRuntime(Other(level=0)).devices() == ()


def test_a_name_that_is_not_utf8() -> None:
    assert {d.name for d in LibraryRuntime(Other(name=b"gpu\xff")).devices()} == {"gpu\ufffd"}


def default() -> LibraryRuntime:
    """A library of feature level 2, which cannot list devices."""
    return LibraryRuntime(Recorded(hidden=["getDeviceCount", "Compilation_createForDevices"]))


def test_without_functions_for_devices_there_is_the_default_one() -> None:
    runtime = default()
    assert runtime.feature_level == 2
    assert runtime.devices() == (Device(DEFAULT_DEVICE, DeviceCode.UNKNOWN, "", 2),)
    assert runtime.supported(chain((0, 1), (1, 2)), runtime.devices()[0]) == (True, True)


def test_the_default_device_compiles_and_is_not_timed() -> None:
    runtime, found = default(), []
    made = runtime.compile(relu(), runtime.devices()[0], CompileOptions(timeout_ns=10**11))
    (result,) = made.run([X], (), RunOptions(measure=found.append))
    np.testing.assert_array_equal(result, np.maximum(X, 0))
    assert found == []
    calls = runtime.functions.calls
    assert calls["Compilation_create"] == 1
    assert not calls["Compilation_setTimeout"]


def test_models_are_checked_for_the_librarys_level() -> None:
    signed = relu(tensor(Q8S, 2, 3, scale=1.0))
    runtime = LibraryRuntime(Recorded())
    assert runtime.supported(signed, runtime.devices()[0]) == (True,)
    with pytest.raises(SpecError, match="needs feature level 4"):
        default().compile(signed, default().devices()[0])


def test_an_unknown_device() -> None:
    device = Device("gpu", DeviceCode.GPU, "", 8)
    for ask in (default().supported, LibraryRuntime(Recorded()).compile):
        with pytest.raises(RuntimeFailure, match="there is no device gpu"):
            ask(relu(), device)


def test_a_library_that_cannot_say_what_a_device_supports() -> None:
    name = "Model_getSupportedOperationsForDevices"
    runtime = LibraryRuntime(Recorded(fails={name: ResultCode.UNAVAILABLE_DEVICE}))
    with pytest.raises(RuntimeFailure, match=f"{name}.*UNAVAILABLE_DEVICE"):
        runtime.supported(relu(), runtime.devices()[0])
