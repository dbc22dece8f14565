"""Crafted and damaged models, each by its seed, through `check` and through a session."""

from __future__ import annotations

import random

from tests.fuzz.mutation import mutated
from tests.fuzz.trial import Made
from tests.random_graphs.trial import draw


def made(seed: int) -> Made:
    """A damaged model."""
    rng = random.Random(seed)
    subject = draw(rng.getrandbits(31))
    return mutated(subject.model, rng), subject.feeds, {}
