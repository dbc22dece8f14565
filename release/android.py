"""The C parts for phones, built with Android's NDK: the contents of the wheel ep-nnapi-android."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

API = 27
"""Android 8.1, the first with NNAPI."""

COMPILERS = {
    "arm64-v8a": "aarch64-linux-android",
    "armeabi-v7a": "armv7a-linux-androideabi",
    "x86_64": "x86_64-linux-android",
    "x86": "i686-linux-android",
}
"""Name of the NDK's compiler for an ABI, before the API level. Source: NDK, other build systems."""


def lay_out(source: Path, ndk: Path, package: Path) -> None:
    """Fills the new folder `package` with the source of ep-nnapi-android, binaries included.

    source   the source of ep-nnapi

    Raises FileNotFoundError if the NDK lacks a compiler, CalledProcessError if one fails.
    """
    shutil.copytree(source / "release" / "android_package", package)
    shutil.copy(source / "LICENSE", package)
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (package / "VERSION").write_text(project["version"], encoding="utf-8")
    build(source / "native", ndk, package / "ep_nnapi_android")


def build(native: Path, ndk: Path, into: Path) -> None:
    """Builds the C parts into a folder for each ABI; raises as `lay_out`."""
    for abi in COMPILERS:
        _compile(native, ndk, into / abi, abi)


def _compile(native: Path, ndk: Path, into: Path, abi: str) -> None:
    """Builds the C parts for an ABI into a new folder, without what the build leaves aside."""
    programs = ndk / "toolchains" / "llvm" / "prebuilt" / "linux-x86_64" / "bin"
    compiler = programs / f"{COMPILERS[abi]}{API}-clang"
    if not compiler.is_file():
        raise FileNotFoundError(f"ANDROID_NDK: {compiler} is missing")
    variables = (
        f"BUILD={into}",
        f"CC={compiler}",
        "CFLAGS=-O2 -g0",
        "LDFLAGS=-s -Wl,-z,max-page-size=16384",  # pages of newer phones
    )
    command = ["make", "--silent", f"--directory={native}", *variables]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for path in into.glob("*.o"):
        path.unlink()


if __name__ == "__main__":
    build(Path(__file__).parents[1] / "native", Path(sys.argv[1]), Path(sys.argv[2]).resolve())
