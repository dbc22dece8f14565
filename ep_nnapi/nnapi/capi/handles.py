"""Tables of live objects by handle; a handle is an integer, never reused or dereferenced."""

from __future__ import annotations

from itertools import count
from typing import Generic, TypeVar

from ep_nnapi.nnapi.capi.refusal import bad_data, unexpected_null
from ep_nnapi.nnapi.functions import PREFIX

T = TypeVar("T")

_numbers = count(0x10000, 16)
"""Aligned like pointers, in case a client checks; one sequence for all kinds of object."""


class Handles(Generic[T]):
    """The live objects of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._live: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._live)

    def add(self, thing: T) -> int:
        """Adds an object and returns its new handle."""
        handle = next(_numbers)
        self._live[handle] = thing
        return handle

    def __getitem__(self, handle: int) -> T:
        """Returns the object of `handle`; raises Refused: UNEXPECTED_NULL, BAD_DATA if unknown."""
        try:
            return self._live[handle]
        except KeyError:
            raise self._invalid(handle) from None

    def remove(self, handle: int) -> T | None:
        """Removes and returns the object; None for null or an unknown handle."""
        return self._live.pop(handle, None)

    def _invalid(self, handle: int) -> Exception:
        if handle == 0:
            return unexpected_null(self.kind.lower())
        return bad_data(f"{handle:#x} is no live {PREFIX}{self.kind}")
