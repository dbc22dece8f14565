"""The commands of docs/android.md, with this machine in place of the phone."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
from tests.bundling.phone import ABI, needs_abi, phone
from tests.documents import blocks
from tests.native.build import needs_compiler
from tests.programs import ran

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "android.md"


def here(command: str) -> str:
    """The command without the NDK's toolchain and for this processor."""
    return re.sub(r"-DCMAKE_TOOLCHAIN_FILE=\S+ ", "", command).replace("arm64-v8a", ABI)


@pytest.mark.long
@needs_compiler
@needs_abi
def test_the_commands_run_a_model_on_a_phone(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    commands = "".join(map(here, blocks(DOCUMENT, "sh")))
    assert "push.sh" in commands
    for name in ("models", "native", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    attached = phone(tmp_path)
    variables = attached.environment
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    # the system's NNAPI library on the phone
    variables["LD_LIBRARY_PATH"] = str(Path(ep_nnapi.libneuralnetworks_path()).parent)
    done = ran("sh", "-e", "-c", commands, timeout=600, cwd=tmp_path, env=variables)
    assert "nnapi-reference: CPU, version 1, feature level 8" in done.stdout
    assert "then 50 runs: median " in done.stdout
    assert np.load(tmp_path / "build" / "digits_bundle" / "outputs" / "scores.npy").argmax() == 0


def test_every_option_of_the_plugin_is_in_the_table() -> None:
    options = (ROOT / "native" / "options.c").read_text()
    known = re.search(r'option \'%\.\d+s\' is unknown; there are ([^"]*)"\s*"?([^"]*)', options)
    assert known
    for name in re.findall(r"\w+", "".join(known.groups()).replace(" and ", " ")):
        assert re.search(rf"^\|.*`{name}`.* \|", DOCUMENT.read_text(), re.M), name
