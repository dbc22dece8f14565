"""One drawn model on the CPU provider and on ours: what it computes, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np

from tests.random_graphs.limits import draw
from tests.random_graphs.limits.measured import Cost, cost

# What ours may take of the CPU provider's: processor time and memory, and what it always may.
TIMES, SECONDS = 10, 1.0
MULTIPLE, BYTES = 2, 32 << 20  # Python's own objects, and a lowering's few MiB: see workspace.py
CLOSE = 2e-5  # of the largest number: sums of float32 products in another order


class Ended(StrEnum):
    """Outcome of a model."""

    SAME = "same"
    WORSE = "worse than without the provider"
    REFUSED = "refused by the CPU provider"


def attempt(seed: int) -> tuple[Ended, str]:
    """Outcome of the model of a seed; where ours is worse, the reason in a sentence."""
    drawn = draw(seed)
    content = drawn.model().SerializeToString()
    cpu = cost(content, drawn.feeds, ours=False)
    if cpu.outputs is None:
        return Ended.REFUSED, ""
    found = "; ".join(_worse(cost(content, drawn.feeds, ours=True), cpu, cpu.outputs))
    given = {n: a.tolist() if a.size < 9 else a.shape for n, a in drawn.constants.items()}
    fed = {n: a.shape for n, a in drawn.feeds.items()}
    detail = f"seed {seed}: {drawn.op_type} of {fed} {given} {drawn.attributes}: {found}"
    return (Ended.WORSE, detail) if found else (Ended.SAME, "")


def _worse(ours: Cost, cpu: Cost, want: Sequence[np.ndarray]) -> Iterator[str]:
    if ours.outputs is None:
        yield ours.failure
        return
    for got, expected in zip(ours.outputs, want, strict=True):
        if (got.dtype, got.shape) != (expected.dtype, expected.shape):
            yield f"{got.dtype} {got.shape} instead of {expected.dtype} {expected.shape}"
        elif not _equal(got, expected):
            yield "other numbers"
    if ours.seconds > TIMES * cpu.seconds + SECONDS:
        yield f"{ours.seconds:.2f} s instead of {cpu.seconds:.2f} s"
    if ours.bytes > MULTIPLE * cpu.bytes + BYTES:
        yield f"{ours.bytes >> 20} MiB instead of {cpu.bytes >> 20} MiB"


def _equal(got: np.ndarray, want: np.ndarray) -> bool:
    if want.dtype.kind != "f":
        return bool(np.array_equal(got, want))
    finite = np.isfinite(want)
    largest = float(np.abs(want[finite]).max(initial=1.0))
    apart = np.abs(got[finite].astype(np.float64) - want[finite])
    return bool(np.all(apart <= CLOSE * largest))
