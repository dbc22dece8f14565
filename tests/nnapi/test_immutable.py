"""Data classes for what is created for every node: values, cheap, and read-only to mypy."""

from dataclasses import field, replace

import pytest
from mypy import api

from ep_nnapi.nnapi.immutable import immutable


@immutable
class Point:
    """Two coordinates, and a note that does not count."""

    x: int
    y: int = 0
    note: str = field(default="", compare=False)


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


def assign(point: Point) -> None:
    point.x = 2  # type: ignore[misc]  # read-only to mypy, which reports comments without use


def test_only_mypy_holds_the_fields() -> None:
    point = Point(1)
    assign(point)
    assert point.x == 2
    found, errors, code = api.run([__file__])
    assert code == 0, found + errors
