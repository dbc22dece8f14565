"""Building from source: what is missing is said in one sentence, and one wheel fits all."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.native.build import COMPILER, NATIVE, WARNINGS, needs_compiler
from tests.programs import Done, ran

pytest.importorskip("setuptools", minversion="77", reason="what pyproject.toml builds with")

ROOT = Path(__file__).parents[2]
SOURCES = ["setup.py", "pyproject.toml", "MANIFEST.in"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what the plugin is built from."""
    for name in SOURCES:
        shutil.copy(ROOT / name, tmp_path)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for folder in ("ep_nnapi", "native", "release"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    (tmp_path / "README.md").touch()
    (tmp_path / "LICENSE").touch()
    return tmp_path


def build(source: Path, *command: str, **environment: str) -> Done:
    return ran(
        sys.executable, *command, status=None, cwd=source, env=os.environ | environment, timeout=300
    )


def test_missing_compiler_is_one_sentence(source: Path):
    done = build(source, "setup.py", "-q", "build_ext", "--inplace", CC="no-such-compiler")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ep-nnapi is built from C and the compiler 'no-such-compiler' is not installed: "
        "install one (on Debian or Ubuntu: apt install gcc)"
    )
    assert "Traceback" not in done.stderr


def test_missing_headers_are_one_sentence(source: Path):
    """A Python whose include directory is empty, as without its -dev package."""
    code = (
        "import sys, sysconfig; old = sysconfig.get_path; "
        "sysconfig.get_path = lambda n, *a, **k: '/none' if n == 'include' else old(n, *a, **k); "
        "sys.argv[0] = 'setup.py'; exec(open('setup.py').read())"
    )
    done = build(source, "-c", code, "-q", "build_ext", "--inplace")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ep-nnapi is built from C and /none/Python.h is missing: install Python's headers "
        "(on Debian or Ubuntu: apt install python3-dev)"
    )


def test_another_system_is_refused_in_one_sentence(source: Path):
    code = """
import setuptools, sys
def setup(cmdclass, **others):
    sys.platform = "darwin"
    cmdclass["build_ext"](setuptools.Distribution()).run()
setuptools.setup = setup
exec(open("setup.py").read())
"""
    done = build(source, "-c", code)
    assert done.returncode == 1
    expected = "ep-nnapi runs on Linux, not on macOS or Windows yet: use a container or WSL 2"
    assert done.stderr.splitlines()[-1] == expected


@needs_compiler
def test_c_files_compile_without_warnings():
    """Those of the plugin that need Python, with the warnings of native/."""
    folders = [ROOT / "ep_nnapi" / "ort", ROOT / "ep_nnapi" / "nnapi", NATIVE]
    files = [*folders[0].glob("*.c"), folders[1] / "interrupts.c"]
    ran(
        *(COMPILER, "-std=c11", "-fsyntax-only", "-DIDENTITY=1u", *WARNINGS),
        *(f"-I{folder}" for folder in (*folders, sysconfig.get_path("include"))),
        *(path for path in files if path.name != "library.c"),  # follows interpreter.c
    )


def test_libraries_are_hardened():
    """Addresses are made read-only when a library is loaded; no stack is executable."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf")
    libraries = [*(ROOT / "ep_nnapi").rglob("*.so")]
    assert len(libraries) >= 3
    for library in libraries:
        said = ran("readelf", "-Wdls", library).stdout
        assert "GNU_RELRO" in said
        assert "BIND_NOW" in said, library
        (stack,) = [line for line in said.splitlines() if "GNU_STACK" in line]
        assert " RWE " not in stack


@pytest.mark.long
def test_a_flag_that_the_compiler_lacks_is_left_out(source: Path):
    """A compiler that takes none of the flags that harden, and says so as compilers do."""
    compiler = source / "cc.sh"
    compiler.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-fstack-protector-strong*|*FORTIFY*|*-z,*now*) exit 1;; esac\n'
        'exec cc "$@"\n'
    )
    compiler.chmod(0o755)
    bare = {"CC": str(compiler), "CFLAGS": "", "LDSHARED": f"{compiler} -shared"}
    done = build(source, "setup.py", "-q", "build_ext", "--inplace", **bare)
    assert done.returncode == 0, done.stderr
    assert len([*(source / "ep_nnapi").rglob("*.so")]) >= 3


@pytest.mark.long
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="a free-threaded build has no abi3"
)
def test_wheel_fits_every_python(source: Path):
    pip = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "out", ".")
    done = build(source, *pip)
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "out").iterdir()
    assert "-cp311-abi3-" in wheel.name
