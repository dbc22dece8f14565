"""Drawn graphs lowered once for all sizes equal those lowered for each size, and the CPU's runs."""

import os
import random
from collections import Counter

import pytest

from tests.random_graphs.symbolic import attempt, attempt_runs


@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.long)])
def test_bound_they_are_what_is_lowered_for_those_sizes(count: int) -> None:
    first = random.randrange(2**31)
    found = sum((attempt(seed) for seed in range(first, first + count)), Counter[str]())
    known = {"traced", "bindings", "not capable", "these sizes alone"}
    assert found.keys() <= known, f"seeds from {first}: {found}"
    assert found["traced"] >= count // 5, f"seeds from {first}: {found}"
    assert found["bindings"] >= found["traced"], f"seeds from {first}: {found}"


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.long)])
def test_sessions_compute_six_sizes_as_the_cpu_provider_does(count: int) -> None:
    first = int(os.environ.get("EP_NNAPI_SEED", "5000"))
    found = Counter[str]()
    for seed in range(first, first + count):
        try:
            found += attempt_runs(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert min(found["nodes"], found["runs"]) >= count, f"seeds from {first}: {found}"
