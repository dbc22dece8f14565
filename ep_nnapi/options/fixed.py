"""Sizes and contents that a caller gives inputs: values of the options `fix` and `sizes`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol, TypeAlias, runtime_checkable

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.values import integer


@dataclass(frozen=True, slots=True)
class Contents:
    """What an input is frozen to: its numbers in C order.

    shape   None for that which the model declares
    """

    numbers: tuple[bool | int | float, ...]
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        """As the parser of the option `fix` reads it."""
        nested: list[object] = list(self.numbers)
        for size in reversed((self.shape or ())[1:]):
            nested = [nested[i : i + size] for i in range(0, len(nested), size)]
        text = json.dumps(nested, separators=(",", ":"))
        return text if self.shape else text[1:-1]


FixedSizes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Pairs of an input's or symbolic dimension's name and its sizes."""
Fix: TypeAlias = tuple[tuple[str, tuple[int, ...] | Contents], ...]
"""The same, or of an input's name and its contents."""


def sizes_in(fix: Fix) -> dict[str, tuple[int, ...]]:
    """The sizes by name."""
    return {name: given for name, given in fix if not isinstance(given, Contents)}


def contents_in(fix: Fix) -> dict[str, Contents]:
    """The contents by name."""
    return {name: given for name, given in fix if isinstance(given, Contents)}


def fix(name: str, value: object) -> Fix:
    """Parses `x=1,3,224,224;batch=8;rate:=16000`, several such strings, or a mapping from names.

    A mapping has sizes, or as an array what an input is frozen to.
    """
    if isinstance(value, Mapping):
        return tuple((str(key), _given(name, str(key), given)) for key, given in value.items())
    if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(pair for text in value for pair in fix(name, text))
    if not isinstance(value, str):
        raise OptionError(f"{name} is {value!r}; write name=1,3,224,224")
    found: list[tuple[str, tuple[int, ...] | Contents]] = []
    for part in filter(None, map(str.strip, value.split(";"))):
        key, equals, text = part.partition(":=")
        if equals and key:
            found.append((key, _contents(name, key, text)))
            continue
        key, equals, sizes = part.rpartition("=")
        if not equals or not key:
            contents = ", or name:=5 for contents" if name == "fix" else ""
            raise OptionError(f"{name} is {part!r}; write name=1,3,224,224{contents}")
        found.append((key, _sizes(name, key, sizes.split(","))))
    return tuple(found)


MOST_SETS = 64
"""Sets of sizes that the option `sizes` may name: each is run, or compiled."""


def sizes_in_use(name: str, value: object) -> FixedSizes:
    """Parses the same for sizes of symbols, ascending; at most 64 sets of one of each."""
    given = fix(name, value)
    for key in contents_in(given):
        raise OptionError(f"{name} has contents of {key}; it takes sizes, as {key}=1,3")
    found = tuple((key, tuple(sorted({*of}))) for key, of in given if not isinstance(of, Contents))
    sets = prod(len(sizes) for _, sizes in found)
    if sets > MOST_SETS:
        raise OptionError(f"{name} has {sets} sets of sizes; name at most {MOST_SETS}")
    if len(dict(found)) < len(found):
        raise OptionError(f"{name} has a name twice; write all its sizes after it once")
    return found


def sets_of(sizes: FixedSizes) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Yields each set of one size for each name, the smallest sizes first."""
    for chosen in product(*(of_one for _, of_one in sizes)):
        yield {name: (size,) for (name, _), size in zip(sizes, chosen, strict=True)}


def _given(name: str, key: str, given: object) -> tuple[int, ...] | Contents:
    """Parses sizes, or an array, which freezes the input `key`."""
    if not isinstance(given, Numbers):
        return _sizes(name, key, given)
    return _frozen_to(name, key, given.reshape(-1).tolist(), tuple(given.shape) or None)


@runtime_checkable
class Numbers(Protocol):
    """An array of numpy or PyTorch, not one of their numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""

    def reshape(self, size: int, /) -> Numbers:
        """Return the elements in another shape."""

    def tolist(self) -> list[object]:
        """Return the elements."""

    def __setitem__(self, at: int, value: float, /) -> None:
        """Set an element."""


def _contents(name: str, key: str, text: str) -> Contents:
    """Parses numbers with commas between them, or nested lists, whose shape it is."""
    listed = text.startswith("[")
    try:
        numbers: list[object] = [json.loads(text if listed else f"[{text}]")]
    except ValueError:
        raise _no_numbers(name, key, text) from None
    shape: list[int] = []
    while numbers and all(isinstance(each, list) for each in numbers):
        lists = [each for each in numbers if isinstance(each, list)]
        shape.append(len(lists[0]))
        if any(len(each) != shape[-1] for each in lists):
            raise _no_numbers(name, key, text)
        numbers = [number for each in lists for number in each]
    return _frozen_to(name, key, numbers, tuple(shape) if listed else None)


def _frozen_to(
    name: str, key: str, numbers: Sequence[object], shape: tuple[int, ...] | None
) -> Contents:
    found = tuple(n for n in numbers if isinstance(n, bool | int | float))
    if len(found) < len(numbers) or not found:
        raise _no_numbers(name, key, ",".join(map(str, numbers[:4])))
    return Contents(found, shape)


def _no_numbers(name: str, key: str, text: str) -> OptionError:
    return OptionError(f"{name} freezes {key} to {text!r}; write numbers: {key}:=16000")


def _sizes(name: str, key: str, given: object) -> tuple[int, ...]:
    """Parses the sizes of the input or symbolic dimension `key`."""
    which = f"{name} of {key}"
    if isinstance(given, int) and not isinstance(given, bool):
        given = (given,)
    if not isinstance(given, list | tuple):
        raise OptionError(f"{which} is {given!r}; it must be sizes such as (1, 3, 224, 224)")
    sizes = tuple(integer(which, size) for size in given)
    if any(size < 1 for size in sizes):
        raise OptionError(f"{which} is {list(sizes)}; each size must be 1 or more")
    return sizes
