"""NNAPI's C API on the host runtime: `libneuralnetworks.so`, usable by any Android NNAPI client."""

from __future__ import annotations

from pathlib import Path

from ep_nnapi.nnapi.errors import NotBuiltError

_CONTEXT_LIBRARY = Path(__file__).with_name("libonnxruntime_providers_nnapi_context.so")
_LIBRARY = Path(__file__).with_name("libneuralnetworks.so")
if not _LIBRARY.is_file():
    raise NotBuiltError


def libneuralnetworks_path() -> str:
    """Returns the path of `libneuralnetworks.so`, for `ctypes.CDLL`, `dlopen` or a linker."""
    return str(_LIBRARY)


def context_library_path() -> str:
    """Returns the path of the plugin execution provider for prepared models, written in C.

    For `onnxruntime.register_execution_provider_library` or its twins in other languages; without
    the option `runtime` it takes the system's `libneuralnetworks.so`, or the one beside it.
    """
    if not _CONTEXT_LIBRARY.is_file():
        raise NotBuiltError
    return str(_CONTEXT_LIBRARY)
