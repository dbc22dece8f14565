"""Providers of ONNX Runtime's plugin libraries as NNAPI devices: `ort:NAME`, host-gpu and others.

A device takes what its provider computes without the CPU provider: the whole model in one session,
or else each operation in a session of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError, module_logger, suggestion
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.ort_devices.opened import NotTaken, Opened

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice

logger = module_logger(__name__)
PREFIX = "ort:"
LIBRARIES_VARIABLE = "EP_NNAPI_PROVIDERS"
"""Plugin libraries of `ort:NAME`, as paths in the manner of PATH."""
OWN_PROVIDER = "NnapiPluginExecutionProvider"
_DEFAULTS = CompileOptions()


@frozen
class Extra:
    """A provider's own wheel.

    package   its Python package, which has `get_library_path` and `get_ep_name`
    extra     of this package that installs it
    needs     of the machine, for a message
    """

    package: str
    extra: str
    type: DeviceCode
    needs: str


EXTRAS = {
    "host-gpu": Extra(
        "onnxruntime_ep_webgpu",
        "webgpu",
        DeviceCode.GPU,
        "a GPU with Vulkan, Metal or Direct3D 12; ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1 allows "
        "a software Vulkan",
    ),
    "host-openvino": Extra(
        "onnxruntime_ep_openvino", "openvino", DeviceCode.ACCELERATOR, "an Intel processor"
    ),
}
"""Devices of the extras by name."""


def is_plugin(name: str | None) -> bool:
    """True for names of devices in this module."""
    return name is not None and (name.startswith(PREFIX) or name in EXTRAS)


@frozen
class PluginDevice:
    """A provider of ONNX Runtime as an NNAPI device.

    provider   its device, as `onnxruntime.get_ep_devices` lists it
    Relaxed models and float16 are computed in float32.
    """

    name: str
    type: DeviceCode
    version: str
    provider: OrtEpDevice
    feature_level: int = 8
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation: True if the provider computes it, and exactly."""
        from ep_nnapi.ort_devices.to_onnx import obstacles  # onnx is slow to import

        return self._opened.supported(model, obstacles(model), self._compiled)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Open a session; raises RuntimeFailure if the provider does not take the whole model."""
        opened = self._opened.take(model)
        if opened is not None and not options.threads:
            return opened
        try:
            return self._compiled(model, options)
        except NotTaken as reason:
            raise reason.failure_of(self.name) from None

    def _compiled(self, model: Model, options: CompileOptions = _DEFAULTS) -> PreparedModel:
        from ep_nnapi.ort_devices.session import open_on_provider, threads_of

        return open_on_provider(model, self.provider, threads_of(options))


def plugin_device(name: str) -> PluginDevice:
    """The device of that name.

    Raises OptionError for a provider that is not registered with ONNX Runtime, for this package's
    own, and for an extra that is not installed or finds no hardware.
    """
    if name in EXTRAS:
        return _of_extra(name, EXTRAS[name])
    provider = name.removeprefix(PREFIX)
    if provider == OWN_PROVIDER:
        raise OptionError(f"device {name} is this provider itself; name another one")
    found = _listed(provider) or _listed_in_libraries(provider)
    if found is None:
        names = sorted({d.ep_name for d in _devices()} - {OWN_PROVIDER})
        raise OptionError(
            f"device {name}: no provider {provider} is registered with ONNX Runtime, which has "
            f"{', '.join(names)}{suggestion(provider, names)}; register its library first with "
            f"onnxruntime.register_execution_provider_library, or name it in {LIBRARIES_VARIABLE}"
        )
    return PluginDevice(name, _type(found), _version(found), found)


def _of_extra(name: str, extra: Extra) -> PluginDevice:
    try:
        package = import_module(extra.package)
    except ImportError:
        raise OptionError(
            f"device {name} needs the package {extra.package.replace('_', '-')}, which is not "
            f"installed: pip install 'ep-nnapi[{extra.extra}]'"
        ) from None
    provider = package.get_ep_name()
    if _listed(provider) is None:
        _register(extra.package, package.get_library_path)
    found = _listed(provider)
    if found is None:
        raise OptionError(f"device {name} is not there: {provider} needs {extra.needs}")
    return PluginDevice(name, extra.type, _version(found), found)


def _register(name: str, path: Callable[[], str]) -> None:
    import onnxruntime

    try:
        onnxruntime.register_execution_provider_library(name, str(path()))
    except Exception as error:  # registered already, without a device; or it cannot be loaded
        logger.info("%s: %s", name, error)


def _listed_in_libraries(provider: str) -> OrtEpDevice | None:
    """The provider's device once the libraries that the environment names are registered."""
    for path in filter(None, os.environ.get(LIBRARIES_VARIABLE, "").split(os.pathsep)):
        _load(path)
    return _listed(provider)


@cache
def _load(path: str) -> None:
    """Register a library; raises OptionError if ONNX Runtime cannot load it."""
    import onnxruntime

    try:
        onnxruntime.register_execution_provider_library(path, path)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        said = str(error).partition("\n")[0]
        raise OptionError(f"{LIBRARIES_VARIABLE} names {path}, but {said}") from None


def _devices() -> list[OrtEpDevice]:
    import onnxruntime

    return list(onnxruntime.get_ep_devices())


def _listed(provider: str) -> OrtEpDevice | None:
    """The provider's first device of this machine, not a virtual one."""
    every = (d for d in _devices() if d.ep_name == provider)
    return next((d for d in every if d.device.metadata.get("is_virtual") != "1"), None)


def _type(found: OrtEpDevice) -> DeviceCode:
    kinds = {"GPU": DeviceCode.GPU, "NPU": DeviceCode.ACCELERATOR, "CPU": DeviceCode.CPU}
    return kinds.get(found.device.type.name, DeviceCode.OTHER)


def _version(found: OrtEpDevice) -> str:
    return str(found.ep_metadata.get("version", "unknown"))
