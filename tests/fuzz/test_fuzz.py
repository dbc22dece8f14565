"""Short runs of what `make fuzz` runs for longer, each in processes that it may end."""

import random
import sys
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

from ep_nnapi.operators import VARIANTS
from tests.fuzz import nodes
from tests.fuzz.models import made
from tests.fuzz.mutation import mutated
from tests.fuzz.trial import Ended, on_cpu, on_nnapi
from tests.programs import ran
from tests.random_graphs.trial import draw

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("models", "nodes", "values", "contexts")
pytestmark = pytest.mark.long


def program(*arguments: str, seconds: int) -> None:
    """Runs it; what it prints has the seed."""
    command = [sys.executable, "-m", *arguments, "--seconds", str(seconds)]
    done = ran(*command, status=None, timeout=seconds + 500)
    lines = [line for line in done.stdout.splitlines() if line.startswith(KINDS)]
    assert done.returncode == 0, "\n".join(lines) or done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_crafted_does_harm(kind: str) -> None:
    """Fixed seeds, so that the suite does the same each time; `make fuzz` draws others."""
    program("tests.fuzz", "--only", kind, "--seed", "1", "--count", "400", seconds=60)


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_repeats_its_model(seed: int) -> None:
    assert made(seed)[0] == made(seed)[0]


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_repeats_its_operator(seed: int) -> None:
    assert nodes.made(seed)[0] == nodes.made(seed)[0]


def test_all_known_operators_that_onnx_tests_are_drawn() -> None:
    models = [ModelProto.FromString(content) for _, content, _ in nodes.sources()]
    drawn = {model.graph.node[0].op_type for model in models}
    known = {op_type for domain, op_type in VARIANTS if not domain}
    assert known - drawn == {"GlobalLpPool", "SimplifiedLayerNormalization"}


def test_most_models_are_changed() -> None:
    """An unchanged model shows nothing."""
    subject = draw(1)
    whole = subject.model.SerializeToString()
    changed = [mutated(subject.model, random.Random(seed)) for seed in range(100)]
    assert sum(one != whole for one in changed) > 80


def test_a_sound_model_computes_and_another_is_refused() -> None:
    """The trial itself tells the two apart."""
    subject = draw(1)
    whole = subject.model.SerializeToString()
    assert on_cpu(whole, subject.feeds) is None
    assert on_nnapi(whole, subject.feeds, {}).ended is Ended.COMPUTED
    broken = onnx.ModelProto.FromString(whole)
    broken.graph.node[0].input[0] = "nowhere"
    assert on_cpu(broken.SerializeToString(), subject.feeds) is not None
    assert on_nnapi(broken.SerializeToString(), subject.feeds, {}).ended is Ended.REFUSED
