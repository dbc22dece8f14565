"""Spans against Python's slices, with numbers and with sizes."""

import random

from ep_nnapi.nnapi.sizes import Trace, bound
from ep_nnapi.nnapi.spans import Span

BOUNDS = (None, 0, 1, 3, 5, 9, -1, -3, -9, 2**31 - 1, 2**63 - 1, -(2**31))


def test_spans_are_slices_for_all_sizes_that_meet_the_conditions() -> None:
    seed, held = random.randrange(2**32), 0
    rng = random.Random(seed)
    for _ in range(2000):
        start, stop = rng.choice(BOUNDS), rng.choice(BOUNDS)
        step, now, later = rng.choice((1, 2, 3, -1, -2)), rng.randint(1, 8), rng.randint(1, 8)
        trace = Trace()
        span = Span.of_slice(start, stop, step, trace.size("n", now))
        found = [span.start, span.size]
        for n in (now, later):
            exact = range(n)[slice(start, stop, step)]
            if all(c.holds({"n": n}) for c in trace.conditions):
                held += n == later
                first, size = bound(found, {"n": n})
                assert size == len(exact), f"seed {seed}"
                assert not size or first == exact[0], f"seed {seed}"
    assert held > 500, f"seed {seed}"


def test_indexes_are_numbers() -> None:
    trace = Trace()
    assert Span(1, trace.size("n", 4), 2).indexes == range(1, 4, 2)
    assert [*map(str, trace.conditions)] == ["n + -4 == 0"]
