"""C and C++ programs built as users build them: by flags, by pkg-config, by CMake."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ep_nnapi.cli.main import main
from ep_nnapi.nnapi.capi import header
from ep_nnapi.nnapi.capi.header import headers
from tests.capi.programs import LIBRARY
from tests.programs import ran

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "exclusive_or.c"
SHIPPED = LIBRARY.parent / "include" / "android"
LEVEL = """
#include <android/NeuralNetworks.h>
#include <cstdio>
int main() { std::printf("%lld", (long long)ANeuralNetworks_getRuntimeFeatureLevel()); }
"""
TYPES = """
#include <android/NeuralNetworksTypes.h>
ANeuralNetworksOperandType type = {ANEURALNETWORKS_TENSOR_FLOAT32, 0, NULL, 0.0f, 0};
ANeuralNetworksModel *model;
"""
PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(client LANGUAGES {language})
find_package(NeuralNetworks {version} REQUIRED)
add_executable(client "{source}")
target_link_libraries(client PRIVATE NeuralNetworks::NeuralNetworks)
"""


def needs(*tools: str) -> None:
    """Skips where one of the tools is not installed."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def run(*command: object, **environment: str) -> str:
    """Output of the command, in an environment without variables for Python or libraries."""
    done = ran(*command, timeout=300, env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment})
    return done.stdout


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["lib", *arguments]) == 0
    return capsys.readouterr().out.strip()


def test_the_headers_beside_the_library_are_those_of_the_tables():
    """If this fails: make .venv/.ready, which builds them."""
    assert {path.name: path.read_text() for path in SHIPPED.iterdir()} == headers()


@pytest.mark.parametrize(("compiler", "language"), [("cc", "c"), ("g++", "c++")])
@pytest.mark.parametrize("source", [TYPES, TYPES + '#include "android/NeuralNetworks.h"\n'])
def test_types_have_a_header_of_their_own(compiler: str, language: str, source: str):
    needs(compiler)
    flags = shlex.split(header.compiler_flags())
    command = [compiler, "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *flags]
    subprocess.run([*command, "-"], input=source, check=True, text=True, timeout=60)


def test_a_c_program_is_built_with_the_flags_and_runs_without_a_path(tmp_path, capsys):
    needs("cc")
    flags = shlex.split(printed(capsys, "--cflags", "--libs"))
    run("cc", EXAMPLE, *flags, "-o", tmp_path / "program")
    assert run(tmp_path / "program").endswith("1 xor 0 = 1\n1 xor 1 = 0\n")


def test_a_cpp_program_is_compiled_and_linked_apart(tmp_path, capsys):
    needs("g++")
    (tmp_path / "level.cc").write_text(LEVEL)
    cflags, libs = (shlex.split(printed(capsys, flag)) for flag in ("--cflags", "--libs"))
    run("g++", "-c", tmp_path / "level.cc", *cflags, "-o", tmp_path / "level.o")
    run("g++", tmp_path / "level.o", *libs, "-o", tmp_path / "level")
    assert run(tmp_path / "level") == "1000008"  # 1,000,000 and the level, past Android 13


def test_flags_are_quoted_for_a_shell(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(header, "_FOLDER", Path("/a b/capi"))
    assert shlex.split(header.compiler_flags()) == ["-I/a b/capi/include"]
    assert shlex.split(header.linker_flags())[::2] == ["-L/a b/capi", "-Wl,-rpath,/a b/capi"]


@pytest.mark.parametrize("other", [["--header", "x"], ["--cmakedir"], ["--pkgconfigdir"]])
def test_flags_go_with_nothing_else(other: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["lib", "--libs", *other]) == 2
    assert "--cflags and --libs go with each other only" in capsys.readouterr().err


def test_pkg_config_says_what_the_command_says(capsys: pytest.CaptureFixture[str]):
    needs("pkg-config")
    folder = printed(capsys, "--pkgconfigdir")
    said = run("pkg-config", "--cflags", "--libs", "neuralnetworks", PKG_CONFIG_PATH=folder)
    expected = printed(capsys, "--cflags", "--libs")
    wanted = expected.split()
    assert said.replace("pkgconfig/../", "").replace("/pkgconfig/..", "").split() == wanted


def test_the_version_of_both_packages_is_the_feature_level(tmp_path, capsys):
    needs("pkg-config", "cmake", "g++")
    folder = printed(capsys, "--pkgconfigdir")
    run("pkg-config", "--atleast-version=8", "neuralnetworks", PKG_CONFIG_PATH=folder)
    with pytest.raises(AssertionError):
        run("pkg-config", "--atleast-version=9", "neuralnetworks", PKG_CONFIG_PATH=folder)
    with pytest.raises(AssertionError, match=r"version: 8"):
        configure(tmp_path, printed(capsys, "--cmakedir"), "CXX", tmp_path / "a.cc", version="9")


def configure(
    folder: Path, package: str, language: str, source: Path, *, version: str = "8"
) -> Path:
    """The build folder of a CMake project that uses the package."""
    text = PROJECT.format(language=language, version=version, source=source)
    (folder / "CMakeLists.txt").write_text(text)
    build = folder / "build"
    run("cmake", "-S", folder, "-B", build, f"-DNeuralNetworks_DIR={package}")
    return build


@pytest.mark.parametrize("language", ["C", "CXX"])
def test_cmake_builds_a_program(tmp_path: Path, language: str, capsys: pytest.CaptureFixture[str]):
    needs("cmake", "cc" if language == "C" else "g++")
    source = EXAMPLE
    if language == "CXX":
        source = tmp_path / "level.cc"
        source.write_text(LEVEL)
    build = configure(tmp_path, printed(capsys, "--cmakedir"), language, source)
    run("cmake", "--build", build)
    assert run(build / "client").endswith("1 xor 1 = 0\n" if language == "C" else "1000008")
