"""NNAPI's C API over the host runtime: `libneuralnetworks.so`, for any client of Android's."""

from __future__ import annotations

from pathlib import Path


def libneuralnetworks_path() -> str:
    """The path of `libneuralnetworks.so`, for `ctypes.CDLL`, `dlopen` or a linker."""
    path = Path(__file__).with_name("libneuralnetworks.so")
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not built; install the package, or run "
            "`python setup.py build_ext --inplace` in a checkout"
        )
    return str(path)
