"""Data classes that are quick to define: values, frozen or, the many, read-only to mypy."""

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields
from functools import partial
from typing import Any

import pytest

from ep_nnapi.nnapi.immutable import frozen, replace
from tests.nnapi.points import Point, assign


def test_equal_by_value() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert Point(1, 2) != Point(2, 1)
    assert len({Point(1, 2), Point(1, 2, "b"), Point(2, 1)}) == 2


def test_copies_with_changes() -> None:
    point = Point(1, 2)
    assert replace(point, y=3) == Point(1, 3)
    assert point == Point(1, 2)


def test_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined]


def test_only_mypy_holds_the_fields() -> None:
    point = Point(1)
    assign(point)
    assert point.x == 2


def kinds(decorate: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A class with every kind of field, and one that inherits from it."""

    class Kinds:
        name: str
        loaded: Callable[[], int] = field(repr=False, compare=False)
        sizes: tuple[int, ...] = ()
        found: list[int] = field(default_factory=list, compare=False)
        last: list[int] = field(default_factory=lambda: [7], init=False, compare=False)
        length: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    base = decorate(Kinds)

    class Derived(base):  # type: ignore[valid-type, misc]
        more: object = None

        def __hash__(self) -> int:
            return 3

    return base, decorate(Derived)


def answers(decorate: Callable[[Any], Any]) -> list[object]:
    """What can be asked of the two classes."""
    base, derived = kinds(decorate)
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a", int), {}),
        (("a", str), {"sizes": (1,)}),
        (("b",), {"loaded": int, "found": [1]}),
        ((), {}),
        (("a", int, (), [], 5), {}),
        (("a", int), {"other": 1}),
        (("a", int), {"last": []}),
    ]
    found: list[object] = [[f.name for f in fields(cls)] for cls in (base, derived)]
    found += [cls.__match_args__ for cls in (base, derived)]
    found += [str(inspect.signature(base)).replace(": 'str'", "").count("="), base.__slots__]
    for cls in (base, derived):
        made: list[Any] = []
        for arguments, names in given:
            try:
                made.append(cls(*arguments, **names))
            except TypeError as error:
                found.append(str(error))
        found += [repr(x) for x in made] + [x == y for x in made for y in made]
        found += [asdict(made[0]), asdict(replace(made[0], name="long")), made[0].found is made[1]]
        found += [copy.copy(x) == copy.deepcopy(x) == x for x in made]
        found += [len({cls("a", len), cls("a", int), cls("c", int, (1,))}) if cls is base else 3]
        for change in (partial(setattr, made[0], "name", "c"), partial(delattr, made[0], "name")):
            with pytest.raises(FrozenInstanceError) as raised:
                change()
            found.append(str(raised.value))
    return found


def test_frozen_classes_are_those_of_dataclass() -> None:
    expected = answers(dataclass(frozen=True, slots=True))
    assert "cannot assign to field 'name'" in expected
    assert answers(frozen) == expected


@frozen
class Pair:
    """Two values."""

    first: float
    second: object = None


def test_frozen_values_are_pickled_and_hold_nan() -> None:
    assert pickle.loads(pickle.dumps(Pair(1.0, (2,)))) == Pair(1.0, (2,))
    nan = float("nan")
    assert Pair(nan) == Pair(nan)
    assert Pair(nan) != Pair(float("nan"))
    assert Pair(1.0).__eq__(Point(1)) is NotImplemented
    with pytest.raises(FrozenInstanceError):
        Pair(1.0).third = 3  # type: ignore[attr-defined]
