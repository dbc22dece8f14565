"""Handles of NNAPI objects, freed when they are no longer used."""

from __future__ import annotations

import ctypes
import os
import weakref

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.library.binding import Functions, failed


class Handle:
    """An NNAPI object of this process, which is freed together with this one.

    value   the pointer
    """

    __slots__ = ("__weakref__", "value")

    def __init__(self, functions: Functions, kind: str, value: int, *needs: object) -> None:
        """Own the object `value` of kind `kind`, such as "Model".

        needs   what must live as long as the object: the handles and memory that it uses
        """
        self.value = value
        arguments = (functions, f"{kind}_free", value, os.getpid(), needs)
        # not at exit: a library that is this interpreter's own ends with it
        weakref.finalize(self, _free, *arguments).atexit = False


def create(
    functions: Functions, name: str, *arguments: object, needs: tuple[object, ...]
) -> Handle:
    """The object that the function `name`, such as Model_create, creates into its last parameter.

    Raises RuntimeFailure if it fails or returns a null pointer with NO_ERROR.
    """
    out = ctypes.c_void_p()
    functions.call(name, *arguments, ctypes.byref(out))
    if not out.value:
        raise failed(
            name,
            ResultCode.UNEXPECTED_NULL,
            "it says that it succeeded, and returns a null pointer",
        )
    return Handle(functions, name.partition("_")[0], out.value, *needs)


def _free(functions: Functions, name: str, value: int, owner: int, needs: object) -> None:
    if os.getpid() == owner:  # a forked child has no connection to the parent's drivers
        functions.free(name, value)
    del needs
