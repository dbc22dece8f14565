"""Registration and selection of the provider in a standard ONNX Runtime session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

import onnxruntime

from ep_nnapi.errors import OptionError
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.options import to_strings
from ep_nnapi.ort import (
    _native,
    plugin,  # noqa: F401 (defines the callbacks of the library)
)
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.target import NnapiFlag

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice, SessionOptions

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
    """
    with _lock:
        if not _devices():
            onnxruntime.register_execution_provider_library(EP_NAME, get_library_path())


def append_execution_provider(
    session_options: SessionOptions, flags: NnapiFlag | int | str = 0, /, **options: object
) -> None:
    """Appends the NNAPI provider to session options; `flags` may also be given by keyword.

    Python equivalent of OrtSessionOptionsAppendExecutionProvider_Nnapi. Raises OptionError for
    invalid flags or options, and if the provider is appended already. They are checked here because
    ONNX Runtime would fall back to a CPU session for an invalid one.
    """
    if flags:
        if "flags" in options:
            raise OptionError("flags is given twice, as the argument and as an option")
        options["flags"] = flags
    from ep_nnapi.provider.provider import (
        options_of_session,
        planner_of,  # imports the whole package, which `register` does not need
    )

    threads = session_options.intra_op_num_threads
    if threads > 0:
        options.setdefault("intra_op_num_threads", threads)
    chosen = options_of_session(options)
    planner_of(chosen)
    strings = to_strings(chosen) or {"flags": "0"}
    register()
    with _lock:
        if session_options in _appended:
            raise OptionError(f"{EP_NAME} is appended to these session options already")
        session_options.add_provider_for_devices(_devices(), strings)
        _appended.add(session_options)


def _devices() -> Sequence[OrtEpDevice]:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP_NAME]
