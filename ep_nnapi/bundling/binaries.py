"""The files of a bundle beside the model: C parts of `native/`, scripts for adb and the README.

Names of files and tensors are any text: they are quoted for the shell.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path, PurePosixPath
from shlex import quote

from ep_nnapi.nnapi.errors import OptionError

PROGRAM = "nnapi_run"
PLUGIN = "libonnxruntime_providers_nnapi_context.so"

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


DIGESTS = "SHA256SUMS"
DEVICE_SCRIPT = "run_here.sh"
REMOTE = PurePosixPath("/data/local/tmp/ep-nnapi")
"""Folder for bundles on the phone: below the one in which Android's shell may start programs."""


def device_script(model: str, inputs: Mapping[str, str]) -> str:
    """Returns the script that runs the model on the phone.

    inputs  files by the names of the inputs
    """
    given = [f"--input {quote(f'{name}={file}')}" for name, file in inputs.items()]
    command = " \\\n  ".join([f"exec ./{PROGRAM} {quote(model)}", *given, '--outputs outputs "$@"'])
    return f"""\
#!/system/bin/sh
# Runs the model on this device; arguments go to {PROGRAM}. Outputs are written to outputs/.
cd "$(dirname "$0")" || exit 2
rm -rf outputs && mkdir outputs || exit 2
{command}
"""


def push_script(remote: PurePosixPath, files: Sequence[str]) -> str:
    """Returns the script that copies the files to the phone and compares their digests there."""
    folder, names = quote(str(remote)), " ".join(map(quote, files))
    pushed = " ".join(quote(f"./{name}") for name in sorted({n.split("/")[0] for n in files}))
    prepare = quote(f"rm -rf {folder} && mkdir -p {folder}")
    digests = quote(f"cd {folder} && chmod 755 {PROGRAM} && sha256sum {names}")
    return f"""\
#!/bin/sh
# Copies device/ to {remote} on the phone and compares the digests of all files there.
# ADB: another adb than that of the path. ANDROID_SERIAL: one of several phones.
set -eu
: "${{ADB:=adb}}"
cd "$(dirname "$0")/device"
"$ADB" shell -n {prepare}
"$ADB" push {pushed} {quote(f"{remote}/")}
digests=$("$ADB" shell -n {digests} | tr -d '\\r')
if [ "$digests" != "$(cat ../{DIGESTS})" ]; then
  echo "push.sh: the files on the phone are not those of {DIGESTS}; make the bundle again" >&2
  exit 1
fi
echo "pushed to {remote}"
"""


def run_script(remote: PurePosixPath) -> str:
    """Returns the script that runs the model on the phone and brings its outputs."""
    start = quote(f"sh {quote(f'{remote}/{DEVICE_SCRIPT}')}")
    return f"""\
#!/bin/sh
# Runs the model on the phone and brings its outputs to outputs/. Arguments go to {PROGRAM}:
# ./run.sh --device all --runs 100
set -eu
: "${{ADB:=adb}}"
cd "$(dirname "$0")"
words=
for word in "$@"; do
  words="$words '$(printf %s "$word" | sed "s/'/'\\\\\\\\''/g")'"
done
"$ADB" shell -n {start}"$words"
rm -rf outputs
"$ADB" pull {quote(f"{remote}/outputs")} .
"""


def readme(
    model: str, files: Sequence[str], abi: str, level: int, remote: PurePosixPath | None
) -> str:
    """Returns the README.md of a bundle.

    files   names of the model's file and of those beside it that it reads
    remote  folder on the phone; None if only applications with ONNX Runtime can run the model
    """
    api = f" (Android API level {26 + level} or newer)" if level <= 5 else ""
    parts = [f"# {model} on NNAPI\n\nFor {abi} and NNAPI feature level {level} or higher{api}.\n"]
    if remote is not None:
        parts.append(_SHELL.format(remote=remote, program=PROGRAM, script=DEVICE_SCRIPT))
    listed = ", ".join(f"`{name}`" for name in files)
    parts.append(_APPLICATION.format(plugin=PLUGIN, abi=abi, files=listed))
    return "\n".join(parts)


_SHELL = """\
## From the shell

    ./push.sh                            copies device/ to the phone and compares digests there
    ./run.sh                             runs the model; brings its outputs to outputs/
    ./run.sh --device all --runs 100     times each NNAPI device
    ./run.sh --devices                   lists them

The variable ADB names another adb, ANDROID_SERIAL one of several phones. Without a shell for the
scripts, the same is:

    adb shell mkdir -p {remote}
    adb push device/. {remote}
    adb shell chmod 755 {remote}/{program}
    adb shell sh {remote}/{script}
    adb pull {remote}/outputs
"""

_APPLICATION = """\
## In an application with ONNX Runtime 1.25 or newer

1. Put `jniLibs/{abi}/{plugin}` into `src/main/jniLibs/{abi}/`.
2. Bring these files of `device/` to one folder of the application's files: {files}.
3. Register the library by its bare file name; select a device of `NnapiContextExecutionProvider`;
   open the model by its path.
"""
