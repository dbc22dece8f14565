"""Builds the native libraries; everything else about the package is in pyproject.toml."""

import compileall
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import setuptools
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

CAPI = runpy.run_path("ep_nnapi/nnapi/capi/_build.py")
ORT = runpy.run_path("ep_nnapi/ort/_build.py")
COMPILING = ("-fstack-protector-strong", "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2")
LINKING = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")
"""Hardening of the libraries, each where the compiler takes it; FORTIFY needs the -O2 they have."""

SBOM = runpy.run_path("release/sbom.py")["sbom"]
BUILDING = {"_build", "_embedding"}
"""Modules that only the build needs: no wheel has them."""


def context_library() -> Extension:
    """The plugin execution provider for prepared models, in C; it needs no Python."""
    name = "libonnxruntime_providers_nnapi_context"
    programs = set(Path("native").glob("nnapi_*.c"))
    sources = sorted(set(Path("native").glob("*.c")) - programs)
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Extension(
        f"ep_nnapi.nnapi.capi.{name}",
        sources=[path.as_posix() for path in sources],
        depends=[path.as_posix() for path in Path("native").glob("*.h")],
        define_macros=[
            ("NNAPI_CONTEXT_RELEASE", f'"{project["version"]}"'),
            ("_GNU_SOURCE", None),
            ("_FILE_OFFSET_BITS", "64"),
        ],
        extra_compile_args=[
            *("-std=c11", "-fvisibility=hidden", "-O2", "-ffunction-sections", "-fdata-sections")
        ],
        extra_link_args=[
            *(f"-Wl,-soname,{name}.so", "-Wl,-z,nodelete", "-Wl,--gc-sections", "-ldl", "-pthread")
        ],
        py_limited_api=True,
    )


CAPI["write_headers"]()
MODULES = ("ort", "nnapi/capi", "native")
LIBRARIES = (CAPI["library"](), ORT["library"](), context_library())


class BuildModules(build_py):
    """build_py without the modules of the build."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of a package: its name, theirs and their files."""
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if module[1] not in BUILDING]


class BuildWheel(bdist_wheel):
    """bdist_wheel with a bill of materials in dist-info/sboms."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
        """Writes WHEEL, and the bill beside it, when all else is in place."""
        super().write_wheelfile(wheelfile_base, *arguments)
        compiler = self.get_finalized_command("build_ext").compiler
        if compiler is None:  # an editable installation: its wheel has no libraries
            return
        command = [compiler.compiler[0], "--version"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        tools = {"setuptools": setuptools.__version__, "C compiler": said.splitlines()[0]}
        name, release = self.distribution.get_name(), self.distribution.get_version()
        bill = Path(wheelfile_base, "sboms", f"{name}.cdx.json")
        bill.parent.mkdir()
        bill.write_text(SBOM(name, release, Path(self.bdist_dir), tools), encoding="utf-8")


class BuildNative(build_ext):
    """build_ext that says in one sentence what is missing to compile C.

    For an editable installation it compiles Python to bytecode too, as pip does for any other.
    """

    def run(self) -> None:
        """Builds the extensions, and the bytecode for an editable installation."""
        if sys.platform != "linux":
            raise SystemExit(
                "ep-nnapi runs on Linux, not on macOS or Windows yet: use a container or WSL 2"
            )
        super().run()
        if self.editable_mode:
            for package in ("ep_nnapi", "partitioner"):
                compileall.compile_dir(package, quiet=1)

    def get_ext_filename(self, fullname: str) -> str:
        """The file of an extension; those of LIBRARIES have no suffix of a Python version."""
        name = fullname.rpartition(".")[2]
        if any(library.name.endswith(f".{name}") for library in LIBRARIES):
            return f"{fullname.replace('.', '/')}.so"
        return super().get_ext_filename(fullname)

    def build_extension(self, ext: Extension) -> None:
        """Compiles `ext`; exits with one sentence when there is no compiler or no Python.h."""
        compiler = self.compiler.compiler[0]
        if shutil.which(compiler) is None:
            raise SystemExit(
                f"ep-nnapi is built from C and the compiler '{compiler}' is not installed: "
                "install one (on Debian or Ubuntu: apt install gcc)"
            )
        header = Path(sysconfig.get_path("include"), "Python.h")
        if not header.is_file():
            raise SystemExit(
                f"ep-nnapi is built from C and {header} is missing: install Python's headers "
                "(on Debian or Ubuntu: apt install python3-dev)"
            )
        ext.extra_compile_args += self._taken([*self.compiler.compiler_so, "-c"], COMPILING)
        ext.extra_link_args += self._taken([*self.compiler.linker_so], LINKING)
        super().build_extension(ext)

    def _taken(self, command: Sequence[str], flags: Sequence[str]) -> list[str]:
        """Those of the flags with which the command ends well on an empty file."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "empty.c")
            source.touch()
            ends = [str(source), "-o", str(source.with_suffix(".out"))]
            return [
                word
                for flag in flags
                for word in flag.split()
                if not subprocess.run(
                    [*command, "-O2", "-Werror", *flag.split(), *ends],
                    check=False,
                    capture_output=True,
                ).returncode
            ]


setup(
    cffi_modules=[f"ep_nnapi/{at}/_build.py:ffi" for at in MODULES],
    ext_modules=list(LIBRARIES),  # cffi appends its modules to it
    cmdclass={"bdist_wheel": BuildWheel, "build_ext": BuildNative, "build_py": BuildModules},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
