"""Random sampling kernels."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real
from ep_nnapi.nnapi.host.philox import uniform
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.spec import F16, F32


def random_multinomial(input: Array, sample_count: int, seeds: Array, *, out: Array) -> None:
    """Draws classes with the probabilities softmax(input), row by row.

    The same seeds give the same draws as on Android's CPU implementation; two zeros mean
    new seeds in each run. A class whose input is not finite is never drawn; raises ShapeError for a
    row without a finite input.
    Source: NDK ANEURALNETWORKS_RANDOM_MULTINOMIAL.
    """
    finite = np.isfinite(input)
    if not finite.any(axis=1).all():
        raise ShapeError("a row of log-probabilities has no finite number")
    logits = np.where(finite, input, -np.inf).astype(np.float64)
    ends = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    targets = uniform(out.size, *_seeds(seeds)).reshape(out.shape) * ends[:, -1:]
    for drawn, end, target in zip(out, ends, targets, strict=True):
        drawn[...] = np.searchsorted(end, target, side="right")


def _seeds(seeds: Array) -> tuple[int, int]:
    if not seeds.any():
        seeds = np.random.SeedSequence().generate_state(2)
    first, second = seeds.tolist()
    return first, second


KERNELS = (real(spec.RANDOM_MULTINOMIAL, random_multinomial, F32, F16),)
