"""Live objects by handle. A handle is a number that is never used again and never followed."""

from __future__ import annotations

from itertools import count
from typing import Generic, TypeVar

from ep_nnapi.nnapi.capi.functions import PREFIX
from ep_nnapi.nnapi.capi.refusal import bad_data, unexpected_null

T = TypeVar("T")

_numbers = count(0x10000, 16)
"""Aligned like pointers, in case a client looks; one sequence, so that kinds never mix."""


class Handles(Generic[T]):
    """The live objects of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._live: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._live)

    def add(self, thing: T) -> int:
        """A new handle of `thing`."""
        handle = next(_numbers)
        self._live[handle] = thing
        return handle

    def __getitem__(self, handle: int) -> T:
        """What lives under `handle`; raises Refused: UNEXPECTED_NULL, or BAD_DATA for no object."""
        try:
            return self._live[handle]
        except KeyError:
            raise self._dead(handle) from None

    def remove(self, handle: int) -> T | None:
        """Takes the object away; None for null and for what is not there."""
        return self._live.pop(handle, None)

    def _dead(self, handle: int) -> Exception:
        if handle == 0:
            return unexpected_null(self.kind.lower())
        return bad_data(f"{handle:#x} is no live {PREFIX}{self.kind}")
