"""Paths and flags by which compilers, pkg-config and CMake find the headers and the library."""

from __future__ import annotations

import shlex
from pathlib import Path

from ep_nnapi.nnapi.capi import libneuralnetworks_path

_FOLDER = Path(libneuralnetworks_path()).parent

PKG_CONFIG = _FOLDER / "pkgconfig"
"""Directory for PKG_CONFIG_PATH; the package is `neuralnetworks`."""
CMAKE = _FOLDER / "cmake"
"""Value for the CMake variable NeuralNetworks_DIR."""


def compiler_flags() -> str:
    """Returns the compiler flags for the include path, quoted for a shell."""
    return shlex.join([f"-I{_FOLDER / 'include'}"])


def linker_flags() -> str:
    """Returns the flags that link the library, with its present directory as the rpath."""
    return shlex.join([f"-L{_FOLDER}", "-lneuralnetworks", f"-Wl,-rpath,{_FOLDER}"])


def data() -> dict[str, str]:
    """Returns all of these as plain data for JSON."""
    return {
        "cflags": compiler_flags(),
        "libs": linker_flags(),
        "pkgconfigdir": str(PKG_CONFIG),
        "cmakedir": str(CMAKE),
    }
