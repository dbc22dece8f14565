"""How compilers, pkg-config and CMake find the headers and the library."""

from __future__ import annotations

import shlex
from pathlib import Path

from ep_nnapi.nnapi.capi import libneuralnetworks_path

_FOLDER = Path(libneuralnetworks_path()).parent

PKG_CONFIG = _FOLDER / "pkgconfig"
"""What PKG_CONFIG_PATH takes for the package `neuralnetworks`."""
CMAKE = _FOLDER / "cmake"
"""What the CMake variable NeuralNetworks_DIR takes."""


def compiler_flags() -> str:
    """The flags that find the headers, quoted for a shell."""
    return shlex.join([f"-I{_FOLDER / 'include'}"])


def linker_flags() -> str:
    """The flags that link the library and let the program find it where it is now."""
    return shlex.join([f"-L{_FOLDER}", "-lneuralnetworks", f"-Wl,-rpath,{_FOLDER}"])
