"""Builds the two native libraries; everything else about the package is in pyproject.toml."""

import runpy
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CAPI = runpy.run_path("ep_nnapi/nnapi/capi/_build.py")


class BuildNative(build_ext):
    """build_ext that says in one sentence what is missing to compile C."""

    def get_ext_filename(self, fullname: str) -> str:
        """The file of an extension; libneuralnetworks.so bears its own name."""
        return CAPI["filename"](fullname) or super().get_ext_filename(fullname)

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
        super().build_extension(ext)


setup(
    cffi_modules=["ep_nnapi/ort/_build.py:ffi", "ep_nnapi/nnapi/capi/_build.py:ffi"],
    ext_modules=[CAPI["library"]()],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
