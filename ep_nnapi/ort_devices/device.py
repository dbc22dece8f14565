"""The devices on ONNX Runtime's providers: host-cpu, and others by their names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from math import inf
from typing import TYPE_CHECKING, ClassVar

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host import HostDevice
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.ort_devices.opened import Latest, NotTaken
from ep_nnapi.ort_devices.plugin import EXTRAS, PREFIX, is_plugin, plugin_device

if TYPE_CHECKING:
    from ep_nnapi.ort_devices.to_onnx import WholeModel

HOST_CPU = "host-cpu"
WHOLE_OPERATORS = ("ConvInteger", "DynamicQuantizeLinear", "LayerNormalization", "MatMulInteger")
"""Operators of many members, which are not looked at where `composites.RULES` hold, as a rule."""
LARGE = 100_000
"""Multiply-accumulates from which on a session is worth opening: nnapi-reference takes 0.2 ms."""


@frozen
class CpuDevice:
    """ONNX Runtime's CPU provider as an NNAPI device.

    int8_weights   type of quantized weights, see `operation.Kernels`; None: by this processor
    threads        threads of one execution where a compilation names none; 0: one per core
    Relaxed models and float16 are computed in float32.
    """

    takes_sizes: ClassVar[bool] = True
    whole_operators: ClassVar[Collection[str]] = WHOLE_OPERATORS
    name: str = HOST_CPU
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    feature_level: int = 8
    int8_weights: bool | None = None
    threads: int = 0
    _latest: Latest[WholeModel] = field(default_factory=Latest, compare=False, repr=False)

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation: True if ONNX Runtime computes it exactly."""
        from ep_nnapi.ort_devices.session import kernels
        from ep_nnapi.ort_devices.to_onnx import obstacles  # onnx is slow to import

        found = obstacles(model, kernels(self.int8_weights), self._latest)
        return tuple(not reason for reason in found)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Open a session; raises RuntimeFailure for a model of other operations."""
        from ep_nnapi.ort_devices.session import open_model, threads_of

        try:
            threads = threads_of(options, self.threads)
            return open_model(model, self.int8_weights, threads, self._latest)
        except NotTaken as reason:
            raise reason.failure_of(self.name) from None


class OrtDevices:
    """Devices on ONNX Runtime's providers; a `DeviceSource`."""

    names = (*EXTRAS, f"{PREFIX}NAME")

    def always(self) -> tuple[HostDevice, ...]:
        """Return host-cpu."""
        return (CpuDevice(),)

    def opens(self, name: str) -> bool:
        """Return True for devices on plugin providers."""
        return is_plugin(name)

    def named(self, name: str) -> HostDevice:
        """Open a device on a plugin provider; raises OptionError as `plugin_device`."""
        return plugin_device(name)

    def least_work(self, name: str) -> float:
        """Return 0 for devices that a user names, what a session is worth on host-cpu."""
        return 0 if is_plugin(name) else LARGE if name == HOST_CPU else inf


ORT_DEVICES = OrtDevices()
"""The entry point."""
