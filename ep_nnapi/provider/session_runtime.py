"""The runtime of a session, also where the NNAPI library is missing, fails or hangs.

Prepared models with alternatives run without one; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, DeviceCode, ResultCode, failure
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure, module_logger
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import Compilation, CompileOptions, Device, Runtime
from ep_nnapi.options.table import SYSTEM, Options
from ep_nnapi.options.values import Preferred
from ep_nnapi.provider.devices import (
    compile_options,
    is_library,
    placement,
    recorded_costs,
    runtime_of,
)
from ep_nnapi.provider.trials import DidNotReturn, TrialNote

logger = module_logger(__name__)


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
    except RuntimeFailure as error:
        return NoRuntime(str(error), device)
    except OptionError as error:
        if name != SYSTEM:
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
        from ep_nnapi.costs.calibration import cost_model  # imports the partitioner

        cost_model(options, device, recorded)
