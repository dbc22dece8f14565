"""Crafted and damaged models, each by its seed, through `check` and through a session."""

from __future__ import annotations

import random

from tests.fuzz.mutation import mutated
from tests.fuzz.trial import Result, alone_of, judged, limit_memory
from tests.random_graphs.trial import Subject, draw


def made(seed: int) -> tuple[bytes, Subject]:
    """The damaged model, and the sound one that it was."""
    rng = random.Random(seed)
    subject = draw(rng.getrandbits(31))
    return mutated(subject.model, rng), subject


def attempt(seed: int) -> Result:
    """A session must answer where the CPU provider does; nothing may end the process."""
    limit_memory()
    model, subject = made(seed)
    return judged(model, subject.feeds, {})


def alone(seed: int) -> Result:
    """The same model without ours."""
    limit_memory()
    model, subject = made(seed)
    return alone_of(model, subject.feeds)
