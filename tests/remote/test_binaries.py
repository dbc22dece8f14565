"""Binaries for phones: read from their headers, refused with the command that builds them."""

import struct
import subprocess
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.bundling.bundle import PLUGIN, PROGRAM
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.remote import binaries
from tests.bundling.phone import ABI, needs_abi
from tests.native.build import ARM64


def program(abi: str, loader: str) -> bytes:
    """Headers of a program, by the System V ABI."""
    bits, machine = binaries.ABIS[abi]
    wide, path = bits == 2, loader.encode() + b"\0"
    identity = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
    size, entry = (64, 56) if wide else (52, 32)
    numbers = (size, entry, 1, 0, 0, 0)
    head = struct.pack(
        "<HHI" + ("QQQ" if wide else "III") + "I6H", 3, machine, 1, 0, size, 0, 0, *numbers
    )
    at = size + entry
    kinds = (
        (3, 4, at, 0, 0, len(path), len(path), 1)
        if wide
        else (3, at, 0, 0, len(path), len(path), 4, 1)
    )
    return identity + head + struct.pack("<IIQQQQQQ" if wide else "<8I", *kinds) + path


@pytest.mark.parametrize("abi", binaries.ABIS)
def test_programs_for_android(abi: str, tmp_path: Path) -> None:
    loader = "/system/bin/linker64" if binaries.ABIS[abi][0] == 2 else "/system/bin/linker"
    (tmp_path / PROGRAM).write_bytes(program(abi, loader))
    found = binaries.Elf(abi, loader.encode())
    assert binaries.find_binary(tmp_path, PROGRAM, abi) == (tmp_path / PROGRAM, found)
    assert found.for_android


def test_programs_for_linux(tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_bytes(program("arm64-v8a", "/lib/ld-linux-aarch64.so.1"))
    assert not binaries.read_elf(tmp_path / PROGRAM).for_android


@needs_abi
def test_libraries_have_no_loader() -> None:
    assert binaries.read_elf(Path(ep_nnapi.context_library_path())) == binaries.Elf(ABI, b"")


def test_what_a_cross_compiler_makes(tmp_path: Path) -> None:
    if ARM64 is None:
        pytest.skip("needs aarch64-linux-gnu-gcc")
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run([ARM64, str(tmp_path / "a.c"), "-o", str(tmp_path / PROGRAM)], check=True)
    found = binaries.read_elf(tmp_path / PROGRAM)
    assert found == binaries.Elf("arm64-v8a", b"/lib/ld-linux-aarch64.so.1")


def test_a_missing_one_comes_with_the_commands_that_build_it(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=f"{PLUGIN} is missing; pip install ep-nnapi-an"
    ) as refused:
        binaries.find_binary(tmp_path, PLUGIN, "x86")
    assert str(refused.value).endswith(binaries.build_commands(tmp_path, "x86"))
    assert "-DANDROID_ABI=x86 " in str(refused.value)


def test_one_for_another_processor_is_refused(tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_bytes(program("x86_64", "/system/bin/linker64"))
    with pytest.raises(OptionError, match="nnapi_run is built for x86_64, not arm64-v8a"):
        binaries.find_binary(tmp_path, PROGRAM, "arm64-v8a")
    other = bytearray(program("x86_64", ""))
    other[18] = 243  # RISC-V
    (tmp_path / PROGRAM).write_bytes(other)
    with pytest.raises(OptionError, match="is built for another processor, not arm64-v8a"):
        binaries.find_binary(tmp_path, PROGRAM, "arm64-v8a")


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\2\2" + bytes(100)])
def test_other_files_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_bytes(data)
    with pytest.raises(OptionError, match="is no program or library for Linux or Android"):
        binaries.read_elf(tmp_path / PROGRAM)


@pytest.mark.parametrize("cut", [64, 100, 120])
def test_headers_that_are_cut_have_no_loader(cut: int, tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_bytes(program("x86_64", "/system/bin/linker64")[:cut])
    assert binaries.read_elf(tmp_path / PROGRAM) == binaries.Elf("x86_64", b"")


def test_the_folder() -> None:
    assert binaries.folder_of(None, "x86_64") == Path("build/android/x86_64")
    assert binaries.folder_of("here", "x86_64") == Path("here")
    with pytest.raises(OptionError, match="abi is 'mips'; it must be one of arm64-v8a, arme"):
        binaries.folder_of(None, "mips")


def test_the_folder_of_the_package_for_android(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "site-packages" / "ep_nnapi_android"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.chdir(tmp_path)
    assert binaries.folder_of(None, "x86") == package / "x86"
    assert binaries.folder_of("here", "x86") == Path("here")
    Path("build", "android", "x86").mkdir(parents=True)
    assert binaries.folder_of(None, "x86") == Path("build/android/x86")


def test_the_commands_name_what_there_is() -> None:
    """CMakeLists.txt says the same."""
    said = (Path(__file__).parents[2] / "native" / "CMakeLists.txt").read_text()
    for word in ("android.toolchain.cmake", "-DANDROID_PLATFORM=android-27"):
        assert word in said
        assert word in binaries.build_commands(Path("b"), "x86")
