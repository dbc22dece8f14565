"""Selection of the NNAPI runtime and device of a session.

Where the NNAPI library is missing, fails or hangs, prepared models with alternatives run without
one; nothing else does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ep_nnapi.litert.package import is_installed
from ep_nnapi.litert.source import LITERT_DEVICES
from ep_nnapi.nnapi.codes import (
    HIGHEST_LEVEL,
    DeviceCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
    failure,
)
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure, module_logger, suggestion
from ep_nnapi.nnapi.files import os_errors, require_writable
from ep_nnapi.nnapi.host.registry import host_runtime, is_named_only
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    Device,
    Runtime,
    Spin,
)
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import DEFAULT_RUNTIME, HOST, LITERT, SYSTEM, Options
from ep_nnapi.options.target import NnapiFlag, Target
from ep_nnapi.options.values import Preferred, Relaxed, Spinning, is_remote
from ep_nnapi.ort_devices.device import HOST_CPU
from ep_nnapi.ort_devices.plugin import is_plugin
from ep_nnapi.provider.device_health import health_of
from ep_nnapi.provider.dynamic_options import nanoseconds
from ep_nnapi.provider.trials import DidNotReturn, TrialNote

if TYPE_CHECKING:
    from ep_nnapi.nnapi.profile.device import Profile

logger = module_logger(__name__)
FAST_DEVICES = (HOST_CPU, *LITERT_DEVICES.names)
"""Devices for which transposes are worth it inside a cluster, and before nnapi-reference tried."""


@cache
def _host() -> Runtime:
    return host_runtime()


def _litert(path: str | None = None) -> Runtime:
    from ep_nnapi.litert.device import open_runtime as opened

    return opened(path)


RUNTIMES: dict[str, Callable[[], Runtime]] = {HOST: _host, LITERT: _litert}


def is_library(name: str) -> bool:
    """Returns True if a value of the option `runtime` is an NNAPI library."""
    return not (name in RUNTIMES or is_remote(name) or _is_litert(name))


def _is_litert(name: str) -> bool:
    return Path(name).name.startswith("libLiteRt")


def open_runtime(name: str) -> Runtime:
    """Returns the runtime with the name `name`, a value of the option `runtime`, for one session.

    Raises OptionError if it is a library that cannot be loaded, or an agent that does not answer.
    """
    if name in RUNTIMES:
        return RUNTIMES[name]()
    if is_remote(name):
        from ep_nnapi.remote.runtime import remote_runtime

        return remote_runtime(name)
    if _is_litert(name):
        return _litert(name)
    from ep_nnapi.nnapi.library import LibraryRuntime, load

    return LibraryRuntime(load(name))


def runtime_of(options: Options) -> Runtime:
    """Returns the runtime for a session with these options: with `device_profile`, that device.

    On the host the profile's answers decide; another runtime's device is its own, without what the
    profile says that it computes wrongly. Raises OptionError if the library or the profile cannot
    be loaded, if a profile without flaws is given for another runtime, and for a device on another
    provider of ONNX Runtime that is not there.
    """
    if options.device_profile is None:
        if options.runtime == HOST and options.device and is_named_only(options.device):
            return host_runtime(names=(options.device,))
        return open_runtime(options.runtime)
    from ep_nnapi.nnapi.profile.device import ExaminedRuntime, ProfiledRuntime
    from ep_nnapi.nnapi.profile.file import read

    profile = read(Path(options.device_profile))
    if options.runtime in (HOST, DEFAULT_RUNTIME):
        return ProfiledRuntime(profile, open_runtime(HOST))
    if profile.flaws is None:
        raise OptionError(
            f"device_profile {options.device_profile} says nothing that {options.runtime} does not"
            " say itself; write one with ep-nnapi doctor, or drop it"
        )
    return ExaminedRuntime(profile, open_runtime(options.runtime))


def _profile_of(runtime: Runtime) -> Profile | None:
    """Returns the profile of a ProfiledRuntime."""
    return getattr(runtime, "profile", None)


@checked_arguments
def devices(runtime: str = DEFAULT_RUNTIME) -> tuple[Device, ...]:
    """Returns the devices of a runtime, as printed by `ep-nnapi devices`."""
    return tuple(open_runtime(runtime).devices())


def tunable_devices(options: Options) -> list[str]:
    """Returns the names of the devices that may compute best: on the host LiteRT's CPU is one."""
    if options.device is not None:
        return [options.device]
    own = [device.name for device in runtime_of(options).devices()]
    host = options.runtime == HOST and options.device_profile is None and is_installed()
    return [*own, LITERT_DEVICES.names[0]] if host else own


def heeds_float16(options: Options) -> bool:
    """Returns False if USE_FP16 changes nothing: host-cpu and LiteRT's CPU compute in float32."""
    return options.device not in (HOST_CPU, LITERT_DEVICES.names[0])


def default_device(runtime: Runtime, flags: NnapiFlag) -> str | None:
    """Returns the device's name where the options name none: with a profile its device.

    None leaves the choice to `choose_device`, as with the flag CPU_ONLY.
    """
    profile = _profile_of(runtime)
    return profile.device.name if profile and NnapiFlag.CPU_ONLY not in flags else None


def recorded_costs(runtime: Runtime, device: Device) -> Mapping[str, object] | None:
    """Returns the calibration that was recorded with a profile's device, None without one."""
    profile = _profile_of(runtime)
    return profile.calibration if profile and device.name == profile.device.name else None


_LAST = {REFERENCE_DEVICE: 1, HOST_CPU: 2}
"""CPU devices after those of drivers; `fast_devices` puts host-cpu first on the host."""


def choose_device(runtime: Runtime, name: str | None, flags: NnapiFlag) -> Device:
    """Returns the device that clusters are compiled for.

    It is the device named `name`, else the first of the type `name`; if that is None, the first one
    that is not a CPU, else the first CPU of a driver, else nnapi-reference: NNAPI's own CPU
    implementation is slower than any driver's. Devices that keep failing come last, and none is
    taken that the flags CPU_ONLY and CPU_DISABLED exclude, as Android documents them.
    Raises OptionError if the name is unknown or no device is left.
    """
    left = runtime.devices()
    if name is not None:
        left = _named(left, name)
    if NnapiFlag.CPU_ONLY in flags:
        left = tuple(d for d in left if d.name == REFERENCE_DEVICE)
    elif NnapiFlag.CPU_DISABLED in flags:
        left = tuple(d for d in left if d.type is not DeviceCode.CPU)
    if not left:
        flag = flags & (NnapiFlag.CPU_ONLY | NnapiFlag.CPU_DISABLED)
        if not flag:
            raise OptionError("the runtime has no device")
        raise OptionError(f"flag {flag.name} leaves no device; drop it or name another device")
    health = health_of(runtime)

    def rank(device: Device) -> tuple[bool, bool, int]:
        left_out = bool(health.left_out(device.name))
        return left_out, device.type is DeviceCode.CPU, _LAST.get(device.name, 0)

    return min(left, key=rank)


def _named(found: Sequence[Device], name: str) -> tuple[Device, ...]:
    """Returns the device with that name, or else the devices of that type."""
    named = tuple(d for d in found if d.name == name)
    typed = tuple(d for d in found if d.type.name.lower() == name.lower())
    if not named and not typed:
        names = [d.name for d in found]
        raise OptionError(
            f"device {name!r} is unknown; there are {', '.join(names)}{suggestion(name, names)}"
        )
    return named or typed


def fast_devices(runtime: Runtime, device: Device, options: Options) -> tuple[Device, ...]:
    """Returns the devices that take precedence over `device`, which `choose_device` has found.

    On the host, host-cpu comes before nnapi-reference, unless the options name a device, restrict
    the choice by a flag, or ask for float16 to be emulated, which only nnapi-reference does.
    """
    if device.name in FAST_DEVICES or is_plugin(device.name):
        return (device,)
    emulated = emulates_float16(device, options)
    restricted = options.flags & (NnapiFlag.CPU_ONLY | NnapiFlag.CPU_DISABLED)
    if options.device is not None or emulated or restricted or device.name != REFERENCE_DEVICE:
        return ()
    return tuple(d for d in runtime.devices() if d.name in FAST_DEVICES)


def emulates_float16(device: Device, options: Options) -> bool:
    """Returns True if the device is one of the host that rounds to float16 as the options ask.

    NNAPI models can be relaxed from feature level 2 on.
    """
    level = options.feature_level or device.feature_level
    asked = NnapiFlag.USE_FP16 in options.flags and options.relaxed is Relaxed.EMULATE
    on_host = options.runtime == HOST and device.name == REFERENCE_DEVICE
    return asked and on_host and level > 1


class Placement(NamedTuple):
    """The runtime, the device that clusters are compiled for, and the target of lowerings."""

    runtime: Runtime
    device: Device
    target: Target


def placement(options: Options, runtime: Runtime | None = None) -> Placement:
    """Returns where a session with these options runs; `runtime` replaces that of the options.

    Raises OptionError if the options do not fit the runtime or its devices.
    """
    runtime = runtime or runtime_of(options)
    offered = options.lowering_target(runtime.feature_level)
    wanted = options.device or default_device(runtime, offered.flags)
    device = choose_device(runtime, wanted, offered.flags)
    target = options.lowering_target(device.feature_level, f"device {device.name}")
    return Placement(runtime, device, target)


def device_order(options: Options) -> tuple[str, ...]:
    """Returns the names of the devices that sessions compile for, first to last.

    Each gets what those before it decline.
    """
    runtime = runtime_of(options)
    device = choose_device(runtime, options.device, options.flags)
    fast = fast_devices(runtime, device, options)
    return tuple(dict.fromkeys(d.name for d in (*fast, device)))


def fallback_device() -> tuple[Runtime, Device]:
    """Returns the runtime and device to use when a device fails: the host's reference device."""
    runtime = open_runtime(HOST)
    return runtime, choose_device(runtime, REFERENCE_DEVICE, NnapiFlag.NONE)


def compile_options(options: Options) -> CompileOptions:
    """Returns the options of compilations; creates the cache's folder if there is none.

    Raises OptionError if that fails, or if the receipt cannot be written.
    """
    if options.receipt is not None:
        require_writable(options.receipt, "receipt")
    if options.cache_dir is not None:
        with os_errors(f"cache_dir {options.cache_dir} cannot be created"):
            os.makedirs(options.cache_dir, exist_ok=True)
    return CompileOptions(
        PreferenceCode[options.preference.name],
        PriorityCode[options.priority.name],
        options.cache_dir,
        timeout_ns=nanoseconds(options.compilation_timeout),
        precise=options.relaxed is Relaxed.PRECISE,
        threads=options.intra_op_num_threads or 0,
        spin=Spin.NEVER if options.spinning is Spinning.NEVER else Spin.IN_RUNS,
        instances=options.instances,
    )


@dataclass(frozen=True)  # which weak references may refer to
class NoRuntime:
    """A runtime whose device declines everything; see `Runtime` for the methods.

    why    there is no other
    name   of its device: that which the session names
    """

    why: str
    name: str = str(Preferred.NNAPI)
    feature_level: int = HIGHEST_LEVEL

    def devices(self) -> tuple[Device, ...]:
        """A device that stands for those of a runtime."""
        return (Device(self.name, DeviceCode.UNKNOWN, "", self.feature_level),)

    def share(self, model: Model) -> Model:
        """The model."""
        return model

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """No operation."""
        del device
        return (False,) * len(model.operations)

    def compile(
        self, model: Model, device: Device, options: CompileOptions | None = None
    ) -> Compilation:
        """Raises RuntimeFailure."""
        del model, device, options
        raise failure("Compilation_create", ResultCode.UNAVAILABLE_DEVICE, self.why)

    def explanation(self, model: Model, declined: Iterable[int]) -> str:
        """Why there is none."""
        del model, declined
        return self.why


def session_runtime(options: Options) -> Runtime:
    """Returns the runtime of a session with these options; NoRuntime in place of a failing library.

    It is opened, and its devices are listed, within `trial_timeout`, with a note in `cache_dir`.
    Raises OptionError if the options name what is no library, or what `runtime_of` refuses.
    """
    name = options.runtime
    if not is_library(name):
        return runtime_of(options)
    note = TrialNote.of(options.cache_dir, b"", "r", name)

    def listed() -> Runtime:
        runtime = runtime_of(options)
        runtime.devices()
        return runtime

    device = options.device or str(Preferred.NNAPI)
    try:
        note.check_free()
        return note.within(options.trial_timeout, "list its devices", name, listed)
    except DidNotReturn as error:
        return NoRuntime(f"runtime: {error}", device)
    except (RuntimeFailure, OptionError) as error:
        if isinstance(error, OptionError) and name != SYSTEM:
            raise
        return NoRuntime(str(error), device)


def check_session(options: Options) -> None:
    """Raises OptionError if a session with these options would: its device, files and folders.

    Where there is no NNAPI library, a warning says so: prepared models may run nevertheless.
    """
    runtime, device, _ = placement(options, session_runtime(options))
    if isinstance(runtime, NoRuntime):
        logger.warning("%s; only prepared models with alternatives run without", runtime.why)
    compile_options(options)
    recorded = recorded_costs(runtime, device)
    if options.calibration is not None or recorded is not None:
        from ep_nnapi.costs import cost_model  # imports the partitioner

        cost_model(options, device, recorded)
