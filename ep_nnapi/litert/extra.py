"""The optional package ai-edge-litert, imported on demand."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from types import ModuleType

from ep_nnapi.nnapi.errors import OptionError

PACKAGE = "ai-edge-litert"
INSTALL = "pip install 'ep-nnapi[litert]'"


@cache
def schema() -> ModuleType:
    """The classes of LiteRT's flatbuffer schema; raises OptionError without the extra."""
    return _imported("ai_edge_litert.schema_py_generated")


def interpreter() -> ModuleType:
    """The module of LiteRT's interpreter; raises OptionError without the extra."""
    return _imported("ai_edge_litert.interpreter")


def flatbuffers() -> ModuleType:
    """The package flatbuffers, which ai-edge-litert requires."""
    return _imported("flatbuffers")


def require_installed() -> None:
    """Raises OptionError without the extra; imports nothing."""
    if find_spec("ai_edge_litert") is None:
        raise _missing()


def _missing() -> OptionError:
    return OptionError(f"LiteRT needs the package {PACKAGE}, which is not installed: {INSTALL}")


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _missing() from None
