"""Data classes that are quick to define: `dataclass` compiles each of five methods for each class.

A first session imports some 160 classes of values. `dataclass(frozen=True, slots=True)` takes 0.45
ms for each, `frozen` a tenth (`bench cold_start`): its methods are the same for all classes, and
`__init__` is compiled once for those that have as many fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")
_FACTORY = object()
"""The default of an argument whose field has a `default_factory`."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """The class that `dataclass(frozen=True, slots=True)` makes; no field is `kw_only`."""
    made = dataclass(slots=True, eq=False, repr=False, init=False)(cls)
    for name, method in (("__setattr__", _refuse_to_set), ("__delattr__", _refuse_to_delete)):
        setattr(made, name, method)
    made = _with_methods(
        made, __init__=_initializer(made), __getstate__=_state, __setstate__=_set_state
    )
    return _with_equality(made)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def immutable(cls: type[T]) -> type[T]:
    """The same for classes of which a session makes many objects, in less than half the time.

    mypy treats their fields as read-only; at run time nothing prevents an assignment.
    """
    return _with_equality(dataclass(slots=True, eq=False, repr=False)(cls))


def _with_equality(cls: type[T]) -> type[T]:
    shown = tuple(f.name for f in _fields(cls) if f.repr)
    compared = tuple(f.name for f in _fields(cls) if f.compare)
    compared *= 2 if len(compared) == 1 else 1  # of one name attrgetter makes no tuple
    values = attrgetter(*compared) if compared else type

    def equal(self: T, other: object) -> object:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: T) -> int:
        return hash(values(self))

    def described(self: T) -> str:
        parts = (f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({', '.join(parts)})"

    return _with_methods(cls, __eq__=equal, __hash__=hashed, __repr__=described)


def _with_methods(cls: type[T], **methods: object) -> type[T]:
    """The class with those of the methods that its body lacks."""
    for name, method in methods.items():
        if cls.__dict__.get(name) is None:  # `__hash__` is None where the body has `__eq__` alone
            setattr(cls, name, method)
    return cls


def _initializer(cls: type) -> FunctionType:
    """`__init__` of the class: the compiled code for its kinds of fields, with its names."""
    set_here = [f for f in _fields(cls) if f.init or f.default_factory is not MISSING]
    kinds = tuple((f.init, f.default_factory is not MISSING) for f in set_here)
    arguments = [f for f in set_here if f.init]
    scope: dict[str, object] = {"FACTORY": _FACTORY}
    for i, made in enumerate(set_here):
        scope[f"set{i}"] = getattr(cls, made.name).__set__
        scope[f"new{i}"] = made.default_factory
    code = _compiled(kinds, hasattr(cls, "__post_init__"))
    code = code.replace(co_varnames=("self", *(f.name for f in arguments)))
    defaults = (f.default if f.default_factory is MISSING else _FACTORY for f in arguments)
    given = tuple(default for default in defaults if default is not MISSING)
    init = FunctionType(code, scope, "__init__", given)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@cache
def _compiled(kinds: tuple[tuple[bool, bool], ...], post_init: bool) -> CodeType:
    """Of an `__init__` for such fields, each an argument or not, with a default factory or not."""
    values = {
        (True, False): "a{0}",
        (True, True): "new{0}() if a{0} is FACTORY else a{0}",
        (False, True): "new{0}()",
    }
    lines = [f"set{i}(self, {values[kind].format(i)})" for i, kind in enumerate(kinds)]
    lines += ["self.__post_init__()"] if post_init else [] if kinds else ["pass"]
    arguments = ", ".join(f"a{i}" for i, (argument, _) in enumerate(kinds) if argument)
    scope: dict[str, FunctionType] = {}
    exec(f"def __init__(self, {arguments}):\n " + "\n ".join(lines), scope)
    return scope["__init__"].__code__


if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414  # mypy knows the fields of this one
else:

    def replace(given: T, /, **changes: object) -> T:
        """The same as `dataclasses.replace`, in less than half the time: sessions do thousands."""
        places, values = _arguments(given.__class__)
        if places is None:
            return dataclasses.replace(given, **changes)
        found = [*values(given)]
        for name, value in changes.items():
            found[places[name]] = value
        return given.__class__(*found)


@cache
def _arguments(cls: type) -> tuple[Mapping[str, int] | None, Callable[[object], tuple[Any, ...]]]:
    """The positions of a class's arguments, if all have one, and what reads them of an object."""
    given = [f for f in _fields(cls) if f.init]
    places = {f.name: i for i, f in enumerate(given)}
    if len(places) < 2 or any(f.kw_only for f in given):
        return None, attrgetter("__class__")
    return places, attrgetter(*places)


def _fields(cls: type) -> tuple[Field[Any], ...]:
    found: tuple[Field[Any], ...] = fields(cls)
    return found


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: object) -> list[object]:
    return [getattr(self, f.name) for f in _fields(type(self))]


def _set_state(self: object, state: list[object]) -> None:
    for made, value in zip(_fields(type(self)), state, strict=True):
        object.__setattr__(self, made.name, value)
