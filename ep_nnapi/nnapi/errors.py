"""Exceptions, the categories of what an operation does not accept, and text for terminals."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import StrEnum
from importlib import import_module
from numbers import Number
from pathlib import Path


class Reason(StrEnum):
    """The categories of node rejections; the set is closed."""

    OP = "OP"
    OPSET = "OPSET"
    LEVEL = "LEVEL"
    DTYPE = "DTYPE"
    RANK = "RANK"
    SHAPE = "SHAPE"
    CONSTANT = "CONSTANT"
    ATTRIBUTE = "ATTRIBUTE"
    QUANTIZATION = "QUANTIZATION"
    SIZE = "SIZE"
    CONSTANT_NODE = "CONSTANT_NODE"
    NOT_WORTH_IT = "NOT_WORTH_IT"
    EXCLUDED = "EXCLUDED"
    CLAIMED = "CLAIMED"
    DRIVER = "DRIVER"
    ACCURACY = "ACCURACY"


class Reject(Exception):
    """Raised by lowerings and operation specs for an unsupported node; caught by `judge` only."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def suggestion(given: str, names: Iterable[str]) -> str:
    """`; did you mean NAME?` for the name closest to `given` in any case; "" if none is similar."""
    from difflib import get_close_matches  # needed for mistakes only

    folded = {name.casefold(): name for name in names}
    near = get_close_matches(given.casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]}?" if near else ""


class NnapiError(Exception):
    """Base of every error this package raises."""


class ModelError(NnapiError):
    """The user's model file is missing, unreadable or invalid."""


class OptionError(NnapiError, ValueError):
    """An option or flag is unknown, malformed or in conflict with another."""


class SpecError(NnapiError):
    """An NNAPI model violates the NNAPI specification."""


class NotBuiltError(NnapiError, ImportError):
    """Imported from a source tree, such as a fresh clone, without built C extensions."""

    def __init__(self) -> None:
        source = Path(__file__).parents[2]
        super().__init__(
            f"ep_nnapi is imported from {source}, where its C parts are not built: "
            "run `pip install -e .` there, or start Python in another folder"
        )


def require_built(module: str) -> None:
    """Imports a compiled module of the package; raises NotBuiltError if it is not built."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise NotBuiltError from None


class RuntimeFailure(NnapiError):
    """An NNAPI call did not return NO_ERROR.

    code   NDK name of the result code
    nodes  names of the ONNX nodes of the cluster that was compiled or run, where it is known
    """

    def __init__(self, call: str, code: str, detail: str = "", nodes: tuple[str, ...] = ()) -> None:
        about = f" in the cluster of {', '.join(nodes)}" if nodes else ""
        super().__init__(f"{call} returned {code}{about}" + (f": {detail}" if detail else ""))
        self.call = call
        self.code = code
        self.detail = detail
        self.nodes = nodes

    def of_cluster(self, nodes: tuple[str, ...]) -> RuntimeFailure:
        """The failure, without traceback, with the nodes of the cluster that it is about."""
        return type(self)(self.call, self.code, self.detail, nodes)

    def __reduce__(self) -> tuple[type[RuntimeFailure], tuple[str, str, str, tuple[str, ...]]]:
        return type(self), (self.call, self.code, self.detail, self.nodes)


class Unresponsive(RuntimeFailure):
    """An NNAPI call has not returned after its timeout; it is abandoned, and still runs."""


def printable(text: str) -> str:
    r"""Escape unprintable characters, such as terminal sequences in a node's or a file's name.

    >>> printable("a\nb \x1b[31m")
    'a\\nb \\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def module_logger(name: str) -> logging.Logger:
    """The logger of a module, whose records show text of files and models as `printable`."""
    logger = logging.getLogger(name)
    logger.addFilter(_escape)
    return logger


def _escape(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(
            each if isinstance(each, Number) else printable(str(each)) for each in record.args
        )
    return True
