"""Symbolic sizes and the numbers that settle them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from ep_nnapi.errors import OptionError, known
from ep_nnapi.graph.value import Dim

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Sizes by tensor name."""


class Sized(Protocol):
    """A tensor with a name and dimensions, None where not even their number is known."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """Its dimensions."""


def symbols(values: Iterable[Sized], shapes: Shapes) -> dict[str, int]:
    """What the symbolic dimensions are when `values` have these shapes.

    Raises OptionError for a shape that does not fit.
    """
    found: dict[str, int] = {}
    for value in values:
        shape = shapes.get(value.name)
        if shape is None or value.dims is None:
            continue
        if len(shape) != len(value.dims) or not _fits(value.dims, shape):
            declared = ",".join(str(d or "?") for d in value.dims)
            raise OptionError(f"{value.name} is fixed to {list(shape)}; the model has [{declared}]")
        found.update((d, s) for d, s in zip(value.dims, shape, strict=True) if isinstance(d, str))
    return found


def fixed_symbols(inputs: Sequence[Sized], fixed: Shapes) -> dict[str, int]:
    """The same for the inputs of a model, where `fixed` may name symbols with one size, too.

    Raises OptionError when it names neither an input nor a symbol, or gives a symbol two sizes.
    """
    names = {v.name for v in inputs}
    there = dict.fromkeys(d for v in inputs for d in v.dims or () if isinstance(d, str))
    found = {name: sizes[0] for name, sizes in fixed.items() if name in there.keys() - names}
    for name, sizes in fixed.items():
        if name not in names and name not in there:
            among = known(name, (*(v.name for v in inputs), *there))
            raise OptionError(f"fix names {name}, no input or symbolic size; there are {among}")
        if name in found and len(sizes) != 1:
            raise OptionError(f"fix of {name} is {list(sizes)}; a symbolic size has one number")
    for value in inputs:
        for symbol, size in symbols([value], fixed).items():
            if found.setdefault(symbol, size) != size:
                raise OptionError(f"fix gives {symbol} two sizes, {found[symbol]} and {size}")
    return found


def settled(dims: Iterable[Dim], numbers: Mapping[str, int]) -> tuple[Dim, ...]:
    """The dimensions with numbers for the symbols that are known."""
    return tuple(numbers.get(d, d) if isinstance(d, str) else d for d in dims)


def _fits(dims: Sequence[Dim], shape: Sequence[int]) -> bool:
    return all(not isinstance(d, int) or d == s for d, s in zip(dims, shape, strict=True))
