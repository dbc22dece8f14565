"""The extra is imported on demand, and its absence is one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from ep_nnapi.litert import package
from ep_nnapi.nnapi.errors import OptionError
from tests.litert.needs import LITERT

MISSING = (
    r"LiteRT needs the package ai-edge-litert, which is not installed: "
    r"pip install 'ep-nnapi\[litert\]'"
)


def test_without_the_extra_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    package.schema.cache_clear()
    for name in ("ai_edge_litert", "ai_edge_litert.schema_py_generated"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=MISSING):
        package.require_installed()
    with pytest.raises(OptionError, match=MISSING):
        package.library()


@LITERT
def test_with_the_extra_it_has_schema_and_library() -> None:
    package.require_installed()
    assert package.schema().BuiltinOperator.CONV_2D == 3
    assert Path(package.library()[0]).is_file()


def test_importing_the_package_does_not_import_it() -> None:
    program = (
        "import sys, ep_nnapi, ep_nnapi.cli.main, ep_nnapi.litert.device\n"
        "assert 'ai_edge_litert' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
