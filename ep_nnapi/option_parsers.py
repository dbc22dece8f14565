"""Parsers of option values, given as strings or Python objects. Each raises OptionError."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TypeAlias, TypeVar

from ep_nnapi.errors import OptionError
from ep_nnapi.target import MAX_FEATURE_LEVEL, NnapiFlag, feature_level_of_api

FixedSizes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Pairs of an input's or symbolic dimension's name and its sizes."""

_E = TypeVar("_E", bound=StrEnum)


def flag_names(flags: NnapiFlag) -> str:
    """The flags in the option's syntax: names joined by |, "0" for none."""
    return "|".join(f.name or "" for f in flags) or "0"


def integer(name: str, value: object) -> int:
    """Parses an integer; prefixes such as 0x are accepted."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    try:
        return int(str(value).strip(), 0)
    except ValueError:
        raise OptionError(f"{name} is {value!r}; it must be a whole number") from None


def flags(value: object) -> NnapiFlag:
    """Parses a sum of flags, or their names separated by |."""
    known = {f.name: f for f in NnapiFlag}
    text = str(value).strip()
    if isinstance(value, int) or text.lstrip("-").isdigit() or text.startswith("0x"):
        number = integer("flags", value)
        if number < 0 or number & ~int(reduce(or_, NnapiFlag)):
            raise OptionError(f"flags is {number}; it must be a sum of {_sum_of_flags()}")
        found = NnapiFlag(number)
    else:
        given = [part.strip() for part in text.split("|")] if text else []
        for name in given:
            if name not in known:
                raise OptionError(f"flag {name!r} is unknown; there are {_sum_of_flags()}")
        found = reduce(or_, (known[name] for name in given), NnapiFlag.NONE)
    if NnapiFlag.CPU_DISABLED in found and NnapiFlag.CPU_ONLY in found:
        raise OptionError("flags CPU_DISABLED and CPU_ONLY exclude each other; give one of them")
    return found


def _sum_of_flags() -> str:
    return ", ".join(f"{f.name} ({int(f)})" for f in NnapiFlag)


def feature_level(value: object) -> int:
    """Parses an NNAPI feature level, 1 to 8."""
    level = integer("feature_level", value)
    if not 1 <= level <= MAX_FEATURE_LEVEL:
        raise OptionError(f"feature_level is {level}; it must be 1 to {MAX_FEATURE_LEVEL}")
    return level


def api_level(value: object) -> int:
    """Parses an Android API level, 27 to 31; returns its feature level, 1 to 5."""
    return feature_level_of_api(integer("api_level", value))


def device(value: object) -> str | None:
    """Parses a device name; None or "" means the runtime's choice and gives None."""
    return str(value) if value not in (None, "") else None


def only(option: str, one: str) -> Callable[[object], str]:
    """Parser of an option with a single allowed value."""

    def parse(value: object) -> str:
        if value != one:
            raise OptionError(f"{option} is {str(value)!r}; this version has only {one!r}")
        return one

    return parse


def one_of(option: str, choices: type[_E]) -> Callable[[object], _E]:
    """Parser of an enumeration's value."""

    def parse(value: object) -> _E:
        if value not in list(choices):
            known = ", ".join(choices)
            raise OptionError(f"{option} is {str(value)!r}; it must be one of {known}")
        return choices(str(value))

    return parse


def path(option: str) -> Callable[[object], str | None]:
    """Parser of a file path. The result is absolute, as other processes have other directories.

    None or "" means no file and gives None.
    """

    def parse(value: object) -> str | None:
        if value in (None, ""):
            return None
        if not isinstance(value, str | os.PathLike):
            raise OptionError(f"{option} is {value!r}; it must be the path of a file")
        return os.path.abspath(os.fsdecode(value))

    return parse


def names(option: str) -> Callable[[object], tuple[str, ...]]:
    """Parser of names, given as a list or separated by commas."""

    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, tuple | list):
            raise OptionError(f"{option} is {value!r}; it must be names separated by commas")
        found = tuple(str(p).strip() for p in parts if str(p).strip())
        for name in found:
            if "," in name:
                raise OptionError(f"{option} has {name!r}, but a comma separates names")
        return found

    return parse


def count(option: str) -> Callable[[object], int]:
    """Parser of a count: an integer of 1 or more."""

    def parse(value: object) -> int:
        number = integer(option, value)
        if number < 1:
            raise OptionError(f"{option} is {number}; it must be 1 or more")
        return number

    return parse


def fix(value: object) -> FixedSizes:
    """Parses `x=1,3,224,224;batch=8`, several such strings, or a mapping from names to sizes."""
    if isinstance(value, Mapping):
        return tuple((str(name), _sizes(str(name), sizes)) for name, sizes in value.items())
    if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(pair for text in value for pair in fix(text))
    if not isinstance(value, str):
        raise OptionError(f"fix is {value!r}; write name=1,3,224,224")
    found = []
    for part in filter(None, value.split(";")):
        name, equals, sizes = part.rpartition("=")
        if not equals or not name:
            raise OptionError(f"fix is {part!r}; write name=1,3,224,224")
        found.append((name, _sizes(name, sizes.split(","))))
    return tuple(found)


def _sizes(name: str, given: object) -> tuple[int, ...]:
    if isinstance(given, int) and not isinstance(given, bool):
        given = (given,)
    if not isinstance(given, list | tuple):
        raise OptionError(f"fix of {name} is {given!r}; it must be sizes such as (1, 3, 224, 224)")
    sizes = tuple(integer(f"fix of {name}", size) for size in given)
    if any(size < 1 for size in sizes):
        raise OptionError(f"fix of {name} is {list(sizes)}; sizes are 1 or more")
    return sizes
