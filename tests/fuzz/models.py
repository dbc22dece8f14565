"""Crafted and damaged models, each by its seed, through `check` and through a session."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from onnx import ModelProto
from onnx.utils import Extractor

from tests.fuzz.mutation import mutated
from tests.fuzz.trial import Ended, Result, judged, limit_memory, on_cpu
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
    """The same model without ours; if it is refused for a node, each of its outputs by itself."""
    limit_memory()
    model, subject = made(seed)
    refused = on_cpu(model, subject.feeds)
    for part in _outputs_alone(model) if refused else ():
        on_cpu(part, subject.feeds)
    return Result(Ended.REFUSED, refused or "")


def _outputs_alone(model: bytes) -> Iterator[bytes]:
    """What computes one output of a model, for each output of which that can be extracted."""
    with suppress(Exception):  # of a damaged model
        whole = ModelProto.FromString(model)
        inputs = [value.name for value in whole.graph.input]
        for value in whole.graph.output:
            yield Extractor(whole).extract_model(inputs, [value.name]).SerializeToString()
