"""The families of a package: modules, each with its part of one table.

Source of the functions of operations: these' entries in the NDK, as of their rows in `spec`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def families(package: str, path: Iterable[str]) -> list[ModuleType]:
    """Return the modules of a package, of which these are `__name__` and `__path__`, by name."""
    return [import_module(f"{package}.{m.name}") for m in iter_modules(path) if not m.ispkg]
