"""Packages that this one needs and cannot ask for by name: the module onnxruntime, partitioner.

It declares no dependency on onnxruntime, as ONNX Runtime's own plugin packages do not: the module
comes from onnxruntime, onnxruntime-gpu or another build, and pip would write one over the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ep_nnapi.nnapi.errors import NnapiError

OLDEST_ONNXRUNTIME = (1, 25)
_MISSING = (
    "ONNX Runtime is not installed: pip install onnxruntime (or onnxruntime-gpu, or another build "
    "that provides the module onnxruntime)"
)


class DependencyError(NnapiError, ImportError):
    """A package that this one needs is missing, too old, or another one of the same name."""


@contextmanager
def explained() -> Iterator[None]:
    """Raises DependencyError, with the way out, for an import that fails inside."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime":
            raise DependencyError(_MISSING) from None
        if error.name == "partitioner" and error.path:
            raise DependencyError(
                f"the package partitioner in {Path(error.path).parent} is not the one of ep-nnapi: "
                "pip uninstall partitioner, then pip install --force-reinstall --no-deps ep-nnapi"
            ) from None
        raise


def onnxruntime_version() -> str:
    """Returns the version of the module onnxruntime, whose distribution has one of many names.

    The module is not imported, which takes long. Raises DependencyError if there is none.
    """
    spec = find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        raise DependencyError(_MISSING)
    text = Path(spec.origin).read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is not None:
        return found[1]
    import onnxruntime

    return str(onnxruntime.__version__)


def require_onnxruntime(version: str) -> None:
    """Raises DependencyError if that version of ONNX Runtime is too old for the plugin.

    >>> require_onnxruntime("1.25.0"), require_onnxruntime("1.33.0.dev20261101002")
    (None, None)
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and tuple(map(int, found.groups())) < OLDEST_ONNXRUNTIME:
        oldest = ".".join(map(str, OLDEST_ONNXRUNTIME))
        raise DependencyError(
            f"onnxruntime {version} is installed and ep-nnapi needs {oldest} or newer: "
            "pip install --upgrade onnxruntime (or the build of it that you have)"
        )
