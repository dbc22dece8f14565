"""The optional package ai-edge-litert: LiteRT's schema, imported on demand, and its library."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from ep_nnapi.nnapi.errors import OptionError

PACKAGE = "ai-edge-litert"
SIGNATURE = "serving_default"
"""Name of the signature, by which runners find inputs and outputs; TensorFlow's own default."""
INSTALL = "pip install 'ep-nnapi[litert]'"
LIBRARY = "libLiteRt.so"


@cache
def schema() -> ModuleType:
    """The classes of LiteRT's flatbuffer schema; raises OptionError without the extra."""
    return _imported("ai_edge_litert.schema_py_generated")


def flatbuffers() -> ModuleType:
    """The package flatbuffers, which ai-edge-litert requires."""
    return _imported("flatbuffers")


def is_installed() -> bool:
    """True with the extra; imports nothing."""
    return find_spec("ai_edge_litert") is not None


def require_installed() -> None:
    """Raises OptionError without the extra; imports nothing."""
    if not is_installed():
        raise _missing()


def library() -> tuple[str, str]:
    """The path of the package's library, and the package's version; raises as `schema`."""
    found = find_spec("ai_edge_litert")
    if found is None or found.origin is None:
        raise _missing()
    return str(Path(found.origin).with_name(LIBRARY)), version(PACKAGE)


def _missing() -> OptionError:
    return OptionError(f"LiteRT needs the package {PACKAGE}, which is not installed: {INSTALL}")


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _missing() from None
