"""Non-maximum suppression (NMS): drops boxes that overlap a box of a better score.

Boxes are chosen greedily in descending order of score; of equal scores the first is chosen first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernels.boxes import BoxSets
from ep_nnapi.nnapi.shapes import ShapeError

Lower: TypeAlias = Callable[[Array, Array], Array]
"""Function of scores and overlaps with the chosen box to new scores; OUT drops a box."""
Factor: TypeAlias = Callable[[Array], Array]
"""Function of the overlaps to the factors of the scores."""
OUT = np.float32(-np.inf)


def best(scores: Array, limit: int) -> Array:
    """Returns indexes of the `limit` greatest scores, descending; all if `limit` is negative."""
    order = np.argsort(-scores, kind="stable")
    return order if limit < 0 else order[:limit]


def hard(threshold: float) -> Lower:
    """Returns hard NMS: drops boxes that overlap the chosen one by `threshold` or more."""
    return lambda scores, overlaps: np.where(overlaps >= threshold, OUT, scores)


def soft(factor: Factor, least: float) -> Lower:
    """Returns soft NMS: multiplies scores by a factor, then drops boxes scored below `least`."""

    def lower(scores: Array, overlaps: Array) -> Array:
        lowered = scores * factor(overlaps)
        return np.where(lowered >= least, lowered, OUT)

    return lower


def kernel(number: int, threshold: float, sigma: float) -> Factor:
    """Returns NNAPI's kernel 0 (hard), 1 (linear) or 2 (Gaussian); ShapeError for others.

    Source: NDK ANEURALNETWORKS_BOX_WITH_NMS_LIMIT.
    """
    kernels: tuple[Factor, ...] = (
        lambda overlaps: (overlaps < threshold).astype(np.float32),
        lambda overlaps: np.where(overlaps < threshold, np.float32(1), 1 - overlaps),
        lambda overlaps: np.exp(-overlaps * overlaps / np.float32(sigma)),
    )
    if not 0 <= number < len(kernels):
        raise ShapeError(f"suppression kernel {number} is none of 0 to 2")
    return kernels[number]


@dataclass(frozen=True, slots=True)
class Greedy:
    """Greedy choice by score in several sets of boxes at once.

    limit   greatest number of choices per set; negative for no limit
    """

    lower: Lower
    limit: int

    def __call__(self, scores: Array, boxes: Array) -> tuple[Array, Array, Array]:
        """Returns the set, the index in it, and the score of each chosen box.

        scores [sets, n], boxes [sets, n, 4]; a score of OUT means no box
        Sorted by set, then by order of choice. All sets advance together: the cost is the number of
        boxes times the greatest number of choices in a set.
        """
        left, places = np.where(scores > OUT, scores, OUT), BoxSets.of(boxes)
        sets = np.arange(len(scores))
        found: list[tuple[Array, Array, Array]] = []
        while left.size and len(found) != self.limit:
            at = left.argmax(axis=1)
            top = left[np.arange(len(at)), at]
            live = top > OUT
            if not live.all():
                left, sets, at, top = left[live], sets[live], at[live], top[live]
                places = places.of_sets(live)
            found.append((sets, at, top))
            left[np.arange(len(at)), at] = OUT
            left = self.lower(left, places.overlap(at))
        if not found:
            return sets[:0], sets[:0], np.empty(0, np.float32)
        every, indexes, tops = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        order = np.argsort(every, kind="stable")
        return every[order], indexes[order], tops[order]


@dataclass(frozen=True, slots=True)
class Detections:
    """Detected boxes: index of the proposal, class and score, all [n]."""

    rows: Array
    classes: Array
    scores: Array

    def take(self, indexes: Array) -> Detections:
        """Returns the detections at `indexes`, in that order."""
        return Detections(self.rows[indexes], self.classes[indexes], self.scores[indexes])


def detect(scores: Array, boxes: Array, threshold: float, greedy: Greedy) -> Detections:
    """Returns the boxes chosen per class above the threshold, without class 0 (background).

    scores [n, classes], boxes [n, classes, 4]   per proposal and class
    """
    objects = scores[:, 1:].T
    above = objects > threshold
    most = above.sum(axis=1).max(initial=0)
    rows = np.argsort(~above, axis=1, kind="stable")[:, :most]  # above first, in order
    some = np.where(above, objects, OUT)
    places = boxes[rows, np.arange(1, scores.shape[1])[:, np.newaxis]]
    sets, at, left = greedy(np.take_along_axis(some, rows, axis=1), places)
    return Detections(rows[sets, at], (sets + 1).astype(np.int32), left)
