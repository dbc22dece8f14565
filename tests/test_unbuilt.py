"""A source folder whose C parts are not built, on the path: one sentence says what to do."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.programs import Done, ran

ROOT = Path(__file__).parents[1]
USES = (
    "ep_nnapi.register()",
    "ep_nnapi.check('models/digits.onnx')",
    "ep_nnapi.libneuralnetworks_path()",
    "import ep_nnapi.nnapi.capi.header",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    for package in ("ep_nnapi", "partitioner"):
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    return folder


def python(source: Path, *arguments: str) -> Done:
    """Python with the source before everything that is installed."""
    env = os.environ | {"PYTHONPATH": str(source)}
    return ran(sys.executable, *arguments, status=None, timeout=120, cwd=ROOT / "docs", env=env)


def sentence(source: Path) -> str:
    return (
        f"ep_nnapi is imported from {source}, where its C parts are not built: "
        "run `pip install -e .` there, or start Python in another folder"
    )


@pytest.mark.parametrize("use", USES)
def test_its_use_says_what_to_do(source: Path, use: str):
    done = python(source, "-c", f"import ep_nnapi\n{use}")
    last = done.stderr.splitlines()[-1]
    assert last == f"ep_nnapi.nnapi.errors.NotBuiltError: {sentence(source)}"
    assert "During handling" not in done.stderr


def test_it_is_an_import_error(source: Path):
    code = "import ep_nnapi\ntry: ep_nnapi.register()\nexcept ImportError as e: print(e)"
    assert python(source, "-c", code).stdout == f"{sentence(source)}\n"


@pytest.mark.parametrize("verb", [("check", "digits.onnx"), ("lib",)], ids=lambda verb: verb[0])
def test_the_command_line_says_it_without_a_traceback(source: Path, verb: tuple[str, ...]):
    done = python(source, "-m", "ep_nnapi", *verb)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"ep-nnapi: {sentence(source)}\n"
