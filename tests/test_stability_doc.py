"""docs/stability.md promises what there is."""

import re
import tomllib
from pathlib import Path

import ep_nnapi
import partitioner
from ep_nnapi.installed import OLDEST_ONNXRUNTIME
from ep_nnapi.ort.api import EP_NAME

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "stability.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def row(what: str) -> list[str]:
    """The cells of the row of a table."""
    (found,) = re.findall(rf"^\| {what} \| (.*) \|$", TEXT, re.M)
    return found.split(" | ")


def test_names_that_are_promised():
    for name in ("ep_nnapi.__all__", "ep_nnapi.torch.__all__", "partitioner.__all__"):
        assert f"`{name}`" in TEXT
    for module in (ep_nnapi, partitioner):
        assert all(hasattr(module, name) for name in module.__all__)
    assert EP_NAME in (ROOT / "README.md").read_text()


def test_oldest_versions():
    assert PROJECT["requires-python"] == f">={row('CPython')[0]}"
    assert row("ONNX Runtime")[0].startswith(".".join(map(str, OLDEST_ONNXRUNTIME)))
    wheels = (ROOT / "release" / "wheels.py").read_text()
    assert f'GLIBC = "{row("glibc")[0].split()[0]}"' in wheels
