"""The files of a bundle beside the model: C parts of `native/`, scripts for adb and the README.

Names of files and tensors are any text: they are quoted for the shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from shlex import quote

PROGRAM = "nnapi_run"
PLUGIN = "libonnxruntime_providers_nnapi_context.so"

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
