"""A class that only mypy holds for read-only; `make lint` reads this file as well."""

from dataclasses import field

from ep_nnapi.nnapi.immutable import immutable


@immutable
class Point:
    """Two coordinates, and a note that does not count."""

    x: int
    y: int = 0
    note: str = field(default="", compare=False)


def assign(point: Point) -> None:
    point.x = 2  # type: ignore[misc]  # read-only to mypy, which reports comments without use
