"""Nodes with attributes at and past every limit: never worse than without the provider.

Wherever the CPU provider answers, so does a session with ours: with the same results, within twice
the memory, and ten times the processor time and a second. The seeds are the same each time and
printed; EP_NNAPI_SEED begins elsewhere.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.programs import ran
from tests.random_graphs.limits import RECIPES, draw

ROOT = Path(__file__).parents[2]
FIRST = int(os.environ.get("EP_NNAPI_SEED", "0"))


def compare(first: int, count: int) -> tuple[int, str]:
    """Number of models that the CPU provider ran, and the report."""
    command = [sys.executable, "-m", "tests.random_graphs.limits", str(first), str(count)]
    done = ran(*command)
    same = next(line for line in done.stdout.splitlines() if line.endswith(" same"))
    return int(same.split()[0]), done.stdout


@pytest.mark.parametrize("part", [pytest.param(i, marks=pytest.mark.long) for i in range(5)])
def test_never_worse_than_the_cpu(part: int) -> None:
    """Of 500 models, a hundred at a time."""
    answered, report = compare(FIRST + 100 * part, 100)
    # the CPU provider refuses what is past its own limits; where it refuses all, nothing was tested
    assert answered >= 35, report


def test_every_operator_is_drawn() -> None:
    assert {draw(seed).op_type for seed in range(1000)} >= RECIPES.keys() - {
        "big window",
        "high rank",
    }


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_one_model(seed: int) -> None:
    assert draw(seed).model().SerializeToString() == draw(seed).model().SerializeToString()
