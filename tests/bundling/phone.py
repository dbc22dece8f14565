"""A folder that stands for a phone, an adb that copies to it and runs there, and C parts for it."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.bundling.bundle import PLUGIN, PROGRAM
from tests.native.build import COMPILER, Build
from tests.programs import Done, ran

ABI = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}.get(platform.machine(), "")
"""Android's name of this machine's processor."""

needs_abi = pytest.mark.skipif(not ABI, reason="Android has no ABI for this processor")

ADB = """\
#!/bin/sh
# The phone's files are below $PHONE; what is pushed is not executable there.
set -eu
on_phone() { printf %s "$1" | sed "s#/data/local/tmp#$PHONE/data/local/tmp#g"; }
verb=$1
shift
case $verb in
  shell)
    if test "$1" = -n; then shift; else cat > /dev/null; fi
    exec < /dev/null sh -c "$(on_phone "$*")" ;;
  push)
    for to in "$@"; do :; done
    to=$(on_phone "$to")
    test -d "$to"
    while [ $# -gt 1 ]; do
      cp -R "$1" "$to"
      shift
    done
    find "$to" -type f -exec chmod 644 {} + ;;
  pull) cp -R "$(on_phone "$1")" "$2" ;;
  *) exit 64 ;;
esac
"""


@dataclass(frozen=True)
class Phone:
    """The phone's files, and the folder of the adb that reaches it."""

    root: Path
    tools: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a shell that has the phone attached."""
        path = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "PHONE": str(self.root)}

    def start(self, script: Path, *words: str) -> Done:
        """Runs a script of a bundle, from another folder than its own."""
        return ran(script, *words, status=None, timeout=300, cwd=self.root, env=self.environment)


def phone(folder: Path) -> Phone:
    """A phone without files."""
    made = Phone(folder / "phone", folder / "tools")
    made.root.mkdir()
    made.tools.mkdir()
    (made.tools / "adb").write_text(ADB)
    (made.tools / "adb").chmod(0o755)
    return made


def native_folder(folder: Path) -> Path:
    """nnapi_run and the plugin for this machine, as CMake leaves them."""
    Build(folder, COMPILER or "cc").program(PROGRAM)
    shutil.copy(ep_nnapi.context_library_path(), folder / PLUGIN)
    return folder
