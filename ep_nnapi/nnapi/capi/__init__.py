"""NNAPI's C API over the host runtime: `libneuralnetworks.so`, for any client of Android's."""

from __future__ import annotations

from pathlib import Path

from ep_nnapi.errors import NotBuiltError

_LIBRARY = Path(__file__).with_name("libneuralnetworks.so")
if not _LIBRARY.is_file():
    raise NotBuiltError


def libneuralnetworks_path() -> str:
    """The path of `libneuralnetworks.so`, for `ctypes.CDLL`, `dlopen` or a linker."""
    return str(_LIBRARY)
