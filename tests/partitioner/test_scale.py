"""Time, memory and their growth, on the graphs of the benchmark."""

from __future__ import annotations

import math

import pytest

from bench.partitioner import KINDS, MEMORY, TIMES, memory, seconds

NODES = 100_000
QUADRATIC = 2.0  # exponent of the time


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_time(kind):
    """CPU seconds, the better of two tries: other processes slow both, but not always alike."""
    ratios = [own / sort for sort, own in (seconds(kind, NODES) for _ in range(2))]
    assert min(ratios) <= TIMES


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_memory(kind):
    assert memory(kind, NODES) <= MEMORY


@pytest.mark.parametrize("kind", ["ladder", "diamonds"])
def test_never_worse_than_quadratic(kind):
    """From 2,000 to 8,000 nodes the time is at most 16 times as long, the better of two."""
    growth = [seconds(kind, 8_000)[1] / seconds(kind, 2_000)[1] for _ in range(2)]
    assert math.log(min(growth), 4) <= QUADRATIC
