import runpy
import shutil
from pathlib import Path

import pytest

from ep_nnapi.bundling.bundle import PLUGIN, PROGRAM
from ep_nnapi.remote.adb import AGENT
from ep_nnapi.remote.binaries import ABIS
from release.android import API, COMPILERS, lay_out

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ndk(tmp_path: Path) -> Path:
    """A folder laid out as the NDK, whose compilers are this machine's."""
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("make") is None:
        pytest.skip("needs a C compiler and make")
    programs = tmp_path / "ndk" / "toolchains" / "llvm" / "prebuilt" / "linux-x86_64" / "bin"
    programs.mkdir(parents=True)
    for triple in COMPILERS.values():
        (programs / f"{triple}{API}-clang").write_text(f'#!/bin/sh\nexec {compiler} "$@"\n')
        (programs / f"{triple}{API}-clang").chmod(0o755)
    return tmp_path / "ndk"


def test_every_abi_has_a_compiler():
    assert COMPILERS.keys() == ABIS.keys()


@pytest.mark.long
def test_the_package_has_the_binaries_of_every_abi(ndk: Path, tmp_path: Path):
    lay_out(ROOT, ndk, tmp_path / "package")
    package = tmp_path / "package" / "ep_nnapi_android"
    folder = runpy.run_path(str(package / "__init__.py"))["folder"]
    for abi in ABIS:
        assert {path.name for path in folder(abi).iterdir()} == {PLUGIN, PROGRAM, AGENT}
        assert (folder(abi) / PROGRAM).stat().st_mode & 0o111
        for path in folder(abi).iterdir():
            assert b"__stack_chk_fail" in path.read_bytes()
    with pytest.raises(ValueError, match="abi is 'mips'; it must be one of arm64-v8a, armeabi-v7a"):
        folder("mips")
    version = (tmp_path / "package" / "VERSION").read_text()
    assert f'\nversion = "{version}"\n' in (ROOT / "pyproject.toml").read_text()


def test_an_ndk_without_a_compiler(ndk: Path, tmp_path: Path):
    for compiler in ndk.rglob("aarch64-*"):
        compiler.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"ANDROID_NDK: .*/aarch64-linux-android27-clang is"
    ):
        lay_out(ROOT, ndk, tmp_path / "package")
