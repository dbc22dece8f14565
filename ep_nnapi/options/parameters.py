"""Arguments of public functions: one of a wrong type is an OptionError that names it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from inspect import signature
from numbers import Real
from typing import ParamSpec, TypeVar

from ep_nnapi.nnapi.errors import OptionError

P = ParamSpec("P")
T = TypeVar("T")

_PATH = (str, os.PathLike)
_NONE = type(None)
_ACCEPTED: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a string"),
    "str | None": ((str, _NONE), "a string"),
    "str | Path": (_PATH, "a path"),
    "str | Path | None": ((*_PATH, _NONE), "a path"),
    "Path | None": ((os.PathLike, _NONE), "a path"),
    "str | os.PathLike[str]": (_PATH, "a path"),
    "str | os.PathLike[str] | None": ((*_PATH, _NONE), "a path"),
    "ProgressCallback | None": ((Callable, _NONE), "a function"),  # type: ignore[dict-item]
    "float": ((Real,), "a number"),
    "Sequence[str]": ((list, tuple), "a list of strings"),
    "Sequence[ModelSource]": ((list, tuple), "a list of models"),
    "Ranges": ((Mapping,), "a dictionary"),
}
"""Annotations with the classes and the words of what they accept.

Arguments of others, such as models, inputs and tolerances, are checked where they are read.
"""


def checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Returns the function with a check of what its arguments are, before it does anything.

    It raises OptionError.
    """
    expected = signature(function)
    accepted = {
        name: _ACCEPTED[str(parameter.annotation)]
        for name, parameter in expected.parameters.items()
        if str(parameter.annotation) in _ACCEPTED
    }

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        given = {}
        with suppress(TypeError):  # the call has Python's own sentence
            given = expected.bind_partial(*args, **kwargs).arguments
        for name, (types, words) in accepted.items():
            if name in given and not isinstance(given[name], types):
                raise OptionError(f"{name} is {given[name]!r}; it must be {words}")
        return function(*args, **kwargs)

    return call
