"""Arguments of public functions: one of a wrong type is an OptionError that names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from ep_nnapi.nnapi.errors import OptionError

P = ParamSpec("P")
T = TypeVar("T")

_TYPES: dict[str, tuple[type | object, str]] = {
    "str": (str, "a string"),
    "os.PathLike[str]": (os.PathLike, "a path"),
    "Path": (os.PathLike, "a path"),
    "ProgressCallback": (Callable, "a function"),
    "None": (type(None), ""),
}
"""Parts of annotations with their classes and the last word for what they accept.

Arguments of other annotations, such as models, inputs and numbers, are checked where they are read.
"""


def checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Returns the function with a check of its paths, names and callbacks, before it does anything.

    It raises OptionError.
    """
    expected = signature(function)
    accepted = {}
    for name, parameter in expected.parameters.items():
        parts = str(parameter.annotation).split(" | ")
        if all(part in _TYPES for part in parts):
            types, words = zip(*map(_TYPES.__getitem__, parts), strict=True)
            accepted[name] = types, next(word for word in reversed(words) if word)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        given = {}
        with suppress(TypeError):  # the call has Python's own sentence
            given = expected.bind_partial(*args, **kwargs).arguments
        for name, (types, word) in accepted.items():
            if name in given and not isinstance(given[name], types):
                raise OptionError(f"{name} is {given[name]!r}; it must be {word}")
        return function(*args, **kwargs)

    return call
