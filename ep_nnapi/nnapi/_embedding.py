"""Build of the C libraries that start or find Python at run time: interpreter.c and its parameters.

setuptools executes this file by path: it must not import the package.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from setuptools import Extension

INTERPRETER = Path(__file__).resolve().parent / "interpreter.c"


def _build_time_python() -> tuple[str, str]:
    """Returns the paths of the build's interpreter and of its libpython, empty for a static one.

    Both are empty where SOURCE_DATE_EPOCH asks for a build that says nothing of its machine: the
    libraries of an installed package find the Python that they are installed in without them.
    """
    if "SOURCE_DATE_EPOCH" in os.environ:
        return "", ""
    directory, name = sysconfig.get_config_vars("LIBDIR", "INSTSONAME")
    path = Path(directory or "", name or "")
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED") and path.is_file()
    return sys.executable, str(path) if shared else ""


def library(
    name: str, adapter: str, identity: int, functions: int, source: str, depends: Sequence[Path]
) -> Extension:
    """Returns the extension for the shared library `name` (dotted), after writing its C source.

    adapter      module whose `connect` returns the table of callbacks
    identity     number of the table's version, and `functions` the length of the table
    source       C source that follows interpreter.c
    depends      files that the library is made from, besides interpreter.c
    """
    file = f"{name.rpartition('.')[2]}.so"
    python, libpython = _build_time_python()
    generated = Path("build", "ep_nnapi_libraries", Path(file).with_suffix(".c"))
    generated.parent.mkdir(parents=True, exist_ok=True)
    whole = f"{INTERPRETER.read_text(encoding='utf-8')}\n{source}"
    if not generated.is_file() or generated.read_text(encoding="utf-8") != whole:
        generated.write_text(whole, encoding="utf-8")
    return Extension(
        name,
        sources=[generated.as_posix()],
        # setuptools builds it again when one of them is newer
        depends=[str(path) for path in (Path(__file__), INTERPRETER, *depends)],
        define_macros=[
            ("NN_ADAPTER", f'"{adapter}"'),
            ("NN_IDENTITY", f"{identity}u"),
            ("NN_FUNCTIONS", str(functions)),
            ("NN_PACKAGE_DEPTH", str(name.count(".") + 1)),
            ("NN_BUILD_PYTHON", f'"{python}"'),
            ("NN_BUILD_LIBPYTHON", f'"{libpython}"'),
            ("NN_BUILD_MINOR", str(sys.version_info.minor)),
        ],
        extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-O2"],
        # nodelete: after dlclose, a fork may still call the code and a thread may still run in it
        extra_link_args=[f"-Wl,-soname,{file},-z,nodelete", "-ldl", "-pthread"],
        py_limited_api=True,
    )
