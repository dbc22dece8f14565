"""Origin of an ONNX node in the PyTorch program it was exported from: module and source line."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LIBRARY = re.compile(
    r"[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]+|ep_nnapi[/\\]torch)[/\\]"
)
_STACK = "pkg.torch.onnx.stack_trace"
_SCOPES = "pkg.torch.onnx.name_scopes"


@dataclass(frozen=True, slots=True)
class Origin:
    """A module's path in its model, and the line of its source as `FILE:LINE`; "" if unknown."""

    module: str = ""
    line: str = ""

    @property
    def clause(self) -> str:
        """The origin as the end of a clause, ` in layers.0 at net.py:12`; "" if unknown."""
        module = f" in {self.module}" if self.module else ""
        return module + (f" at {self.line}" if self.line else "")

    @property
    def remark(self) -> str:
        """The origin as a remark after a sentence, ` (in layers.0 at net.py:12)`."""
        return f" ({self.clause.strip()})" if self.clause else ""


def origin(module: str, stack_trace: str) -> Origin:
    """Returns the origin for a module's path and a Python stack, innermost frame last.

    The line is the innermost one outside of installed packages, or else the innermost one.
    """
    frames = [f"{m['file']}:{m['line']}" for m in _FRAME.finditer(stack_trace)]
    own = [frame for frame in frames if not _LIBRARY.search(frame)]
    return Origin(module, next(iter([*own[-1:], *frames[-1:]]), ""))


def origin_of_metadata(metadata: Mapping[str, str]) -> Origin:
    """Returns the origin that PyTorch's ONNX exporter has noted in a node's metadata."""
    return origin(_module(metadata.get(_SCOPES, "")), metadata.get(_STACK, ""))


def _module(scopes: str) -> str:
    """Returns the path of the innermost module from a list of scopes; the last is the operator.

    >>> _module("['', 'layers', 'layers.0', 'relu']")
    'layers.0'
    """
    try:
        names = ast.literal_eval(scopes)
    except (ValueError, SyntaxError):
        return ""
    if not isinstance(names, list) or len(names) < 2:
        return ""
    name = str(names[-2])
    return "" if name.startswith("_empty_nn_module_stack") else name
