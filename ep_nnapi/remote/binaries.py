"""Binaries of `native/` for phones: where they are, and what their headers say."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from ep_nnapi.nnapi.errors import OptionError

ABIS: Mapping[str, tuple[int, int]] = {
    "arm64-v8a": (2, 183),
    "armeabi-v7a": (1, 40),
    "x86_64": (2, 62),
    "x86": (1, 3),
}
"""Class (1: 32 bits, 2: 64 bits) and machine in the ELF header, by Android's name of the ABI.

Source: System V ABI, ELF header; NDK, Android ABIs.
"""

_ANDROID_LOADER = b"/system/bin/linker"
_PROGRAM_INTERPRETER = 3
_MOST_HEADERS = 64


@dataclass(frozen=True, slots=True)
class Elf:
    """What the headers of a program or library say.

    abi     Android's name of the ABI; None for other processors
    loader  path of the dynamic loader that a program asks for; empty for libraries
    """

    abi: str | None
    loader: bytes

    @property
    def for_android(self) -> bool:
        """False if it is a program for another system than Android."""
        return not self.loader or self.loader.startswith(_ANDROID_LOADER)


def folder_of(native: str | PathLike[str] | None, abi: str) -> Path:
    """Returns the folder with the binaries: the given one, that of docs/android.md, or a package's.

    The package is ep-nnapi-android, which has them for every ABI.
    """
    if abi not in ABIS:
        raise OptionError(f"abi is {abi!r}; it must be one of {', '.join(ABIS)}")
    if native is not None:
        return Path(native)
    built = Path("build", "android", abi)
    package = find_spec("ep_nnapi_android")
    if built.is_dir() or package is None or package.origin is None:
        return built
    return Path(package.origin).with_name(abi)


def find_binary(folder: Path, name: str, abi: str) -> tuple[Path, Elf]:
    """Returns the path of a binary and what its headers say.

    Raises OptionError, with the command that builds it, if it is missing or for another ABI.
    """
    path = folder / name
    how = (
        "pip install ep-nnapi-android, or build it in a clone of ep-nnapi: "
        f"{build_commands(folder, abi)}"
    )
    if not path.is_file():
        raise OptionError(f"{path} is missing; {how}")
    found = read_elf(path)
    if found.abi != abi:
        raise OptionError(
            f"{path} is built for {found.abi or 'another processor'}, not {abi}; {how}"
        )
    return path, found


def build_commands(folder: Path, abi: str) -> str:
    """Returns the commands that build both binaries with the NDK, in a clone."""
    return (
        f"cmake -S native -B {folder} "
        "-DCMAKE_TOOLCHAIN_FILE=$NDK/build/cmake/android.toolchain.cmake "
        f"-DANDROID_ABI={abi} -DANDROID_PLATFORM=android-27 && cmake --build {folder}"
    )


def read_elf(path: Path) -> Elf:
    """Returns what the headers of a file say; raises OptionError if it is no ELF file."""
    with path.open("rb") as file:
        data = file.read(1 << 16)  # headers and the loader's path are at the beginning
    if data[:4] != b"\x7fELF" or len(data) < 64 or data[5] != 1:
        raise OptionError(
            f"{path} is no program or library for Linux or Android (little-endian ELF)"
        )
    (machine,) = struct.unpack_from("<H", data, 18)
    abi = next((name for name, kind in ABIS.items() if kind == (data[4], machine)), None)
    return Elf(abi, _loader(data))


def _loader(data: bytes) -> bytes:
    """Returns the path in the program header INTERP; empty if there is none."""
    wide = data[4] == 2
    (table,) = struct.unpack_from("<Q" if wide else "<I", data, 32 if wide else 28)
    size, count = struct.unpack_from("<HH", data, 54 if wide else 42)
    entry = struct.Struct("<IIQQQQ" if wide else "<IIIII")
    for i in range(min(count, _MOST_HEADERS)):
        at = table + i * size
        if at + entry.size > len(data):
            break
        values = entry.unpack_from(data, at)
        offset, length = (values[2], values[5]) if wide else (values[1], values[4])
        if values[0] == _PROGRAM_INTERPRETER:
            return data[offset : offset + length].rstrip(b"\0")
    return b""
