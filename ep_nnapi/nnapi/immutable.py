"""Data classes that are created for every node: cheap to create, immutable to the type checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: type[T]) -> type[T]:
    """A data class with slots, equality and a hash, whose fields mypy treats as read-only.

    At run time nothing prevents an assignment: `frozen=True` would, but then it takes about five
    times as long to create an object (`bench sessions`: a tenth of a session's creation).
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
