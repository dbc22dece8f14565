"""An NNAPI library as a Runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache

from ep_nnapi.nnapi.codes import DeviceCode, ResultCode, feature_level_of_code
from ep_nnapi.nnapi.library.binding import NEEDED, Functions, Handle, failed
from ep_nnapi.nnapi.library.compilation import LibraryCompilation, compile_model
from ep_nnapi.nnapi.library.model_writer import write_model
from ep_nnapi.nnapi.library.weights import SharedWeights
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, Device, with_token
from ep_nnapi.nnapi.validate import validate

DEFAULT_DEVICE = "default"
"""Name of the one device of a library without functions to list devices: NNAPI's own choice."""


class LibraryRuntime:
    """The runtime behind a library's C API; see `Runtime` for the methods.

    One object for each session: its models share their weights. Thread-safe.

    functions   the library's; one object for all sessions of this process
    """

    def __init__(self, functions: Functions) -> None:
        self.functions, self.feature_level = functions, functions.feature_level
        self._weights = SharedWeights(functions)

    def devices(self) -> tuple[Device, ...]:
        """The devices; the nameless default one below feature level 3."""
        return tuple(_devices(self.functions))

    def share(self, model: Model) -> Model:
        """An equal model with its large constants in the session's shared memory."""
        return self._weights.share(model)

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`: True if `device` supports it.

        Below feature level 3 the runtime cannot be asked; then all are True.
        """
        handle = self._find(device)
        model, written = self._written(model)
        if handle is None:
            return (True,) * len(model.operations)
        answers = (ctypes.c_bool * len(model.operations))()
        devices = (ctypes.c_void_p * 1)(handle)
        name = "Model_getSupportedOperationsForDevices"
        self.functions.call(name, written.value, devices, 1, answers)
        return tuple(answers)

    def compile(
        self, model: Model, device: Device, options: CompileOptions | None = None
    ) -> LibraryCompilation:
        """Compile `model` for `device` only."""
        handle = self._find(device)
        model, written = self._written(model)
        chosen = with_token(options or CompileOptions(), model)
        compiled = compile_model(self.functions, written, handle, chosen)
        ends = (model.inputs, model.outputs)
        ins, outs = (tuple(model.operands[i] for i in indexes) for indexes in ends)
        return LibraryCompilation(self.functions, compiled, ins, outs, handle is not None)

    def _written(self, model: Model) -> tuple[Model, Handle]:
        """The model with shared weights, and its NNAPI model."""
        validate(model, self.feature_level)
        shared = self.share(model)
        return shared, write_model(self.functions, self._weights, shared)

    def _find(self, device: Device) -> int | None:
        """The device's handle; None for the default device."""
        for found, handle in _devices(self.functions).items():
            if found.name == device.name:
                return handle
        detail = f"there is no device {device.name}"
        raise failed("Compilation_create", ResultCode.BAD_DATA, detail)


@cache
def _devices(functions: Functions) -> Mapping[Device, int | None]:
    """The devices and their handles, in the library's order; a process lists them once."""
    if not functions.has(*NEEDED[3]):
        return {Device(DEFAULT_DEVICE, DeviceCode.UNKNOWN, "", functions.feature_level): None}
    count = ctypes.c_uint32()
    functions.call("getDeviceCount", ctypes.byref(count))
    devices = dict(_device(functions, i) for i in range(count.value))
    return {d: handle for d, handle in devices.items() if d.feature_level >= 1}


def _device(functions: Functions, index: int) -> tuple[Device, int]:
    out = ctypes.c_void_p()
    functions.call("getDevice", index, ctypes.byref(out))
    handle = out.value or 0
    name, version = ctypes.c_char_p(), ctypes.c_char_p()
    kind, level = ctypes.c_int32(), ctypes.c_int64()
    for function, into in (
        ("Device_getName", name),
        ("Device_getVersion", version),
        ("Device_getType", kind),
        ("Device_getFeatureLevel", level),
    ):
        functions.call(function, handle, ctypes.byref(into))
    code = DeviceCode(kind.value) if kind.value in set(DeviceCode) else DeviceCode.UNKNOWN
    called, text = ((t.value or b"").decode(errors="replace") for t in (name, version))
    reported = min(feature_level_of_code(level.value), functions.feature_level)
    return Device(called, code, text, reported), handle
