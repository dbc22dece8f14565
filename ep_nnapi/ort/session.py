"""Registration and selection of the provider in a standard ONNX Runtime session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from weakref import WeakSet

import onnxruntime

from ep_nnapi.collection import paused_collection
from ep_nnapi.installed import require_onnxruntime
from ep_nnapi.nnapi.errors import OptionError, module_logger
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.options.fixed import sizes_in
from ep_nnapi.options.settings import Chosen, read_settings
from ep_nnapi.options.table import OptionKeywords, options_of_session, parse, to_strings
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.ort import (
    _native,
    plugin,  # noqa: F401 (defines the callbacks of the library)
)
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.sessions.device_session import SPIN_BRIEFLY

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice, SessionOptions

logger = module_logger(__name__)
SESSION_LEVELS = {
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    # a session shows its nodes to providers before it fuses those of the CPU
    "nnapi-aware": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}
"""The optimization level of sessions for each level of settings and of `prepare`."""
_SPINNING = ("session.force_spinning_stop", "session.intra_op.allow_spinning", SPIN_BRIEFLY[0])
_lock = ForkableLock()
_appended: WeakSet[SessionOptions] = WeakSet()


def get_library_path() -> str:
    """Returns the plugin library's path, for ONNX Runtime's registration in any language."""
    return str(Path(_native.__file__).with_name("libonnxruntime_providers_nnapi.so"))


def get_ep_name() -> str:
    """Returns the name of the execution provider in the library."""
    return EP_NAME


def get_ep_names() -> list[str]:
    """Returns the names of the execution providers in the library."""
    return [EP_NAME]


def register() -> None:
    """Registers the plugin library with ONNX Runtime in this process; repeated calls do nothing.

    Afterwards `providers=["NnapiPluginExecutionProvider", "CPUExecutionProvider"]` works too.
    Raises DependencyError if ONNX Runtime is too old.
    """
    require_onnxruntime(onnxruntime.__version__)
    with _lock:
        if not _devices():
            onnxruntime.register_execution_provider_library(EP_NAME, get_library_path())


def append_execution_provider(
    session_options: SessionOptions,
    flags: NnapiFlag | int | str = 0,
    /,
    **options: Unpack[OptionKeywords],
) -> None:
    """Appends the NNAPI provider to session options; `flags` may also be given by keyword.

    Python equivalent of OrtSessionOptionsAppendExecutionProvider_Nnapi. With `settings`, a file
    that `ep-nnapi tune` wrote, the session gets its optimization level too, and no provider if the
    file chooses the CPU. Symbols that `fix` gives a size have it in the whole session, which then
    takes inputs of no other size. Its own threads spin for 1 ms without work, not for 40, unless
    the session options say how they spin. Raises OptionError for invalid flags or options, and if
    the provider is appended already. They are checked here because ONNX Runtime would fall back to
    a CPU session for an invalid one.
    """
    if not isinstance(session_options, onnxruntime.SessionOptions):
        raise OptionError(f"session_options is {session_options!r}; it must be a SessionOptions")
    if flags:
        if "flags" in options:
            raise OptionError("flags is given twice, as the argument and as an option")
        options["flags"] = flags
    if options.get("settings") and _chooses_cpu(session_options, options["settings"]):
        return
    threads = session_options.intra_op_num_threads
    if threads > 0:
        options.setdefault("intra_op_num_threads", threads)
    chosen = options_of_session(options)
    with paused_collection():
        from ep_nnapi.provider.devices import check_session  # `register` does not need it

    check_session(chosen)
    strings = to_strings(chosen) or {"flags": "0"}
    register()
    with _lock:
        if session_options in _appended:
            raise OptionError(f"{EP_NAME} is appended to these session options already")
        for name, sizes in sizes_in(chosen.fix).items():
            if len(sizes) == 1:  # of a symbol, in which case the session sees the number only
                session_options.add_free_dimension_override_by_name(name, sizes[0])
        session_options.add_provider_for_devices(_devices(), strings)
        _spin_briefly(session_options)
        _appended.add(session_options)


def _spin_briefly(session_options: SessionOptions) -> None:
    """Keeps the session's threads from taking processors while clusters are made and run."""
    for key in _SPINNING:
        try:
            session_options.get_session_config_entry(key)
        except RuntimeError:  # there is none
            continue
        return
    session_options.add_session_config_entry(*SPIN_BRIEFLY)


def _chooses_cpu(session_options: SessionOptions, path: object) -> bool:
    """Applies the level of a settings file to the session; returns True if it chooses the CPU."""
    settings = read_settings(path)
    session_options.graph_optimization_level = SESSION_LEVELS[settings.level]
    if settings.provider is not Chosen.CPU:
        return False
    threads = parse(settings.options).intra_op_num_threads
    if threads is not None and session_options.intra_op_num_threads == 0:
        session_options.intra_op_num_threads = threads
    logger.info("%s chooses the CPU provider, so %s is not appended", path, EP_NAME)
    return True


def _devices() -> Sequence[OrtEpDevice]:
    """Returns the provider's devices of this machine, not virtual ones."""
    found = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP_NAME]
    return [device for device in found if device.device.metadata.get("is_virtual") != "1"]
