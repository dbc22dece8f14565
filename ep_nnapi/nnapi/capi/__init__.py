"""NNAPI's C API on the host runtime: `libneuralnetworks.so`, usable by any Android NNAPI client."""

from __future__ import annotations

from pathlib import Path

from ep_nnapi.errors import NotBuiltError

_LIBRARY = Path(__file__).with_name("libneuralnetworks.so")
if not _LIBRARY.is_file():
    raise NotBuiltError


def libneuralnetworks_path() -> str:
    """Returns the path of `libneuralnetworks.so`, for `ctypes.CDLL`, `dlopen` or a linker."""
    return str(_LIBRARY)
