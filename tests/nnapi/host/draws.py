"""Numbers with long sums, for `long_sums` and `long_products`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, TypeAlias

import numpy as np

from ep_nnapi.nnapi.signature import OperationSpec
from tests.nnapi.host.oracle import F32, Stored, store


@dataclass
class Draw:
    """Normally distributed numbers of deviation 1, `count` of them in a sum."""

    count: int
    mean: float
    seed: int
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def side(self) -> int:
        """Of a square of `count`."""
        return isqrt(self.count)

    def data(self, *shape: int) -> Stored:
        """Around the mean."""
        return store(self.rng.standard_normal(shape) + self.mean, F32)

    def weights(self, *shape: int, scale: float = 1.0) -> Stored:
        """Around zero."""
        return store(self.rng.standard_normal(shape) * scale, F32)

    @property
    def small(self) -> float:
        """The scale of weights whose products with the data sum up to about 1."""
        return 1 / (np.sqrt(self.count) * max(1.0, self.mean))

    def along(self) -> Iterator[tuple[int, Stored]]:
        """Data that is `count` long along each of three axes."""
        for axis, shape in enumerate(((self.count, 3, 4), (2, self.count, 3), (2, 3, self.count))):
            yield axis, self.data(*shape)

    def images(self, height: int, width: int, channels: int) -> Iterator[tuple[bool, Stored]]:
        """An image in both layouts, as NHWC; `laid_out` stores it in its own."""
        image = self.data(1, height, width, channels)
        yield from ((False, image), (True, image))


def laid_out(image: np.ndarray, nchw: bool) -> np.ndarray:
    return image.transpose(0, 3, 1, 2) if nchw else image


def moved(image: Stored, nchw: bool) -> Stored:
    return store(laid_out(image.array, nchw), F32)


VALID = {"padding": 2, "stride_width": 1, "stride_height": 1, "activation": 0}


def windows(image: np.ndarray, side: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """Elements of an image [1, H, W, C] at each position of a window of `side` x `side`."""
    for y in range(image.shape[1] - side + 1):
        for x in range(image.shape[2] - side + 1):
            yield (y, x), image[0, y : y + side, x : x + side]


Example: TypeAlias = tuple[dict[str, Any], list[np.ndarray]]
"""Operands by name, and the outputs in float64."""
Cases: TypeAlias = dict[OperationSpec, Callable[[Draw, OperationSpec], Iterator[Example]]]
