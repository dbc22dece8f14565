import zipfile
from pathlib import Path

import pytest

from release.audit import LARGEST, Finding, findings

GOOD = {
    "ep_nnapi/__init__.py": b"",
    "ep_nnapi/ort/_native.pyi": b"",
    "ep_nnapi_android/arm64-v8a/nnapi_run": b"\x7fELF",
    "ep_nnapi-1.0.0.dist-info/METADATA": b"Name: ep-nnapi",
    "ep_nnapi-1.0.0.dist-info/licenses/LICENSE": b"MIT",
    "ep_nnapi-1.0.0.dist-info/sboms/ep-nnapi.cdx.json": b"{}",
}


def wheel(
    folder: Path,
    files: dict[str, bytes],
    called: str = "ep_nnapi-1.0.0-cp311-abi3-manylinux_2_28_x86_64.whl",
) -> Path:
    path = folder / called
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_files_that_are_needed(tmp_path: Path):
    found = next(findings(wheel(tmp_path, GOOD), ("/home/somebody",)))
    assert found == "6 files, each of a kind that is needed; licence: MIT"


@pytest.mark.parametrize(
    "name",
    [
        "ep_nnapi/ort/native.c",
        "ep_nnapi/ort/_build.py",
        "ep_nnapi/__pycache__/a.cpython-311.pyc",
        "tests/test_readme.py",
        "setup.py",
        "ep_nnapi/nnapi/capi/_native.cpython-311-x86_64-linux-gnu.so",
    ],
)
def test_a_file_that_is_not_needed(name: str, tmp_path: Path):
    with pytest.raises(Finding, match=f"{name} is not needed"):
        next(findings(wheel(tmp_path, GOOD | {name: b""}), ()))


def test_without_a_licence(tmp_path: Path):
    files = {name: data for name, data in GOOD.items() if "licenses" not in name}
    with pytest.raises(Finding, match="has no licence"):
        next(findings(wheel(tmp_path, files), ()))


def test_the_largest_wheel(tmp_path: Path):
    path = wheel(tmp_path, GOOD)
    room = LARGEST - path.stat().st_size - len("ep_nnapi/a.py") * 2 - 30 - 46
    assert next(findings(wheel(tmp_path, GOOD | {"ep_nnapi/a.py": b"#" * room}), ()))
    assert path.stat().st_size == LARGEST
    with pytest.raises(Finding, match="has 1,600,001 bytes, more than 1,600,000"):
        next(findings(wheel(tmp_path, GOOD | {"ep_nnapi/a.py": b"#" * (room + 1)}), ()))


def test_a_path_of_the_machine_that_built_it(tmp_path: Path):
    files = GOOD | {"ep_nnapi/a.py": b"x = '/home/somebody/ep-nnapi'"}
    with pytest.raises(Finding, match=r"ep_nnapi/a\.py names /home/somebody"):
        next(findings(wheel(tmp_path, files), ("/home/somebody",)))
    assert next(findings(wheel(tmp_path, files), ("/home/some", "/")))  # another's


def test_the_package_for_android_without_an_abi(tmp_path: Path):
    found = findings(wheel(tmp_path, GOOD, "ep_nnapi_android-1.0.0-py3-none-any.whl"), ())
    assert next(found)
    with pytest.raises(Finding, match=r"libraries are \['ep_nnapi_android/arm64-v8a/nnapi_run'\]"):
        next(found)
