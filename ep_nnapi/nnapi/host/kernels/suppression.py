"""Non-maximum suppression: of boxes that overlap, the ones with the best scores.

Boxes are chosen greedily in descending order of score; of equal scores the first comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host.kernels.boxes import Places
from ep_nnapi.nnapi.shapes import ShapeError

Lower: TypeAlias = Callable[[Array, Array], Array]
"""Scores after a choice, by those before and the overlaps with the chosen box; OUT drops a box."""
Factor: TypeAlias = Callable[[Array], Array]
"""What scores are multiplied by, by the overlaps."""
OUT = np.float32(-np.inf)


def best(scores: Array, limit: int) -> Array:
    """Indexes of the `limit` greatest in descending order; of all when negative."""
    order = np.argsort(-scores, kind="stable")
    return order if limit < 0 else order[:limit]


def hard(threshold: float) -> Lower:
    """Boxes are out that overlap a chosen one by the threshold or more."""
    return lambda scores, overlaps: np.where(overlaps >= threshold, OUT, scores)


def soft(factor: Factor, least: float) -> Lower:
    """Scores are multiplied by a factor; boxes are out whose score is lower than `least` then."""

    def lower(scores: Array, overlaps: Array) -> Array:
        lowered = scores * factor(overlaps)
        return np.where(lowered >= least, lowered, OUT)

    return lower


def kernel(number: int, threshold: float, sigma: float) -> Factor:
    """What NNAPI numbers 0 (hard), 1 (linear) and 2 (Gaussian); raises ShapeError beyond.

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
    """Choice by score, box after box, in several sets of boxes at once.

    limit   how many of each set at most; negative: any number
    """

    lower: Lower
    limit: int

    def __call__(self, scores: Array, boxes: Array) -> tuple[Array, Array, Array]:
        """For each choice the set, the index in it, and the score.

        scores [sets, n], boxes [sets, n, 4]; a score of OUT: no box
        Sets come one after another, each in the order of choice. All sets choose at once: the cost
        is the number of boxes times the number of choices of the set with the most.
        """
        left, places = np.where(scores > OUT, scores, OUT), Places.of(boxes)
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
    """Boxes by the row of their proposal, with class and score, all [n]."""

    rows: Array
    classes: Array
    scores: Array

    def take(self, indexes: Array) -> Detections:
        """Some of them, in that order."""
        return Detections(self.rows[indexes], self.classes[indexes], self.scores[indexes])


def detect(scores: Array, boxes: Array, threshold: float, greedy: Greedy) -> Detections:
    """What is chosen of each class but 0, the background, among scores above the threshold.

    scores [n, classes], boxes [n, classes, 4]   of each proposal for each class
    """
    objects = scores[:, 1:].T
    above = objects > threshold
    most = above.sum(axis=1).max(initial=0)
    rows = np.argsort(~above, axis=1, kind="stable")[:, :most]  # those above, in their order
    some = np.where(above, objects, OUT)
    places = boxes[rows, np.arange(1, scores.shape[1])[:, np.newaxis]]
    sets, at, left = greedy(np.take_along_axis(some, rows, axis=1), places)
    return Detections(rows[sets, at], (sets + 1).astype(np.int32), left)
