"""Build of the C library: it is made again when anything that it is made from changes."""

import os
import runpy
import shutil
from pathlib import Path

import pytest
from setuptools.modified import newer_group

ROOT = Path(__file__).parents[2]
NNAPI = Path("ep_nnapi", "nnapi")
CAPI = NNAPI / "capi"
PARTS = (
    *(NNAPI / "functions.py", NNAPI / "interpreter.c", NNAPI / "_embedding.py"),
    *(CAPI / "_build.py", CAPI / "shim" / "connect.c"),
)
BUILT, CHANGED = 2_000_000_000, 2_000_000_100  # file times in seconds


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the library is made from, and a library that is newer than all of it."""
    for part in PARTS:
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "library.so").touch()
    os.utime(tmp_path / "library.so", (BUILT, BUILT))
    return tmp_path


def outdated(tree: Path) -> bool:
    """True if setuptools would build the library again, which it decides by the times of files."""
    extension = runpy.run_path(str(tree / NNAPI / "capi" / "_build.py"))["library"]()
    return newer_group([*extension.sources, *extension.depends], str(tree / "library.so"))


def test_a_library_newer_than_its_parts_is_kept(tree: Path) -> None:
    assert not outdated(tree)


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_a_library_older_than_a_part_is_built_again(part: Path, tree: Path) -> None:
    os.utime(tree / part, (CHANGED, CHANGED))
    assert outdated(tree)


def test_the_generated_source_follows_the_list_of_functions(tree: Path) -> None:
    listed = tree / NNAPI / "functions.py"
    outdated(tree)
    before = (tree / "build" / "ep_nnapi_libraries" / "libneuralnetworks.c").read_text()
    assert "ANeuralNetworks_getDeviceCount(" in before
    listed.write_text(listed.read_text().replace("getDeviceCount", "getDeviceNumber"))
    outdated(tree)
    after = (tree / "build" / "ep_nnapi_libraries" / "libneuralnetworks.c").read_text()
    assert after == before.replace("getDeviceCount", "getDeviceNumber")
