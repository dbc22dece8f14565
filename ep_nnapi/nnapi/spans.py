"""The indexes that a slice takes along an axis: a `range` whose ends may be a `Size`."""

from __future__ import annotations

from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.sizes import Size, identical

_BEYOND = 2**31 - 1
"""A bound that exporters write for the end of an axis of any size."""


@immutable
class Span:
    """The indexes from `start` to before `stop` in steps of `step`, as of `range`."""

    start: int
    stop: int
    step: int = 1

    @staticmethod
    def whole(size: int) -> Span:
        """All of an axis."""
        return Span(0, size)

    @staticmethod
    def of_slice(start: int | None, stop: int | None, step: int, size: int) -> Span:
        """The indexes that Python's `slice(start, stop, step)` takes of an axis."""
        least, most = (0, size) if step > 0 else (-1, size - 1)
        first, last = (least, most) if step > 0 else (most, least)
        return Span(
            first if start is None else _clamped(start, size, least, most),
            last if stop is None else _clamped(stop, size, least, most),
            step,
        )

    def takes_all(self, size: int) -> bool:
        """True if they are all indexes of an axis; False where that depends on symbols."""
        return identical((self.start, self.stop, self.step), (0, size, 1))

    @property
    def size(self) -> int:
        """Their number."""
        steps = self.stop - self.start if self.step > 0 else self.start - self.stop
        if abs(self.step) > 1:
            steps = (steps + abs(self.step) - 1) // abs(self.step)
        return steps if steps > 0 else 0

    @property
    def indexes(self) -> range:
        """The indexes as numbers; sizes become the numbers that they are."""
        return range(int(self.start), int(self.stop), self.step)


def _clamped(bound: int, size: int, least: int, most: int) -> int:
    """A bound of a slice, which counts from the end if negative, within the axis."""
    if not isinstance(bound, Size) and not -_BEYOND <= bound < _BEYOND:
        return least if bound < 0 else most
    if bound < 0:
        bound += size
    return least if bound < least else min(bound, most)
