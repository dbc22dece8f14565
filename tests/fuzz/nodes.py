"""Models of one operator each that is used in an invalid or unusual way, through the same trials.

The sound models are ONNX's backend tests and small random graphs, as they are or with QDQ pairs
around the operator. Constants get other shapes and values, attributes other numbers, lengths and
types, tensors other declared shapes, and inputs and outputs are left out.
"""

from __future__ import annotations

import random
from functools import cache

from onnx import ModelProto

from ep_nnapi.operators import VARIANTS
from tests.fuzz.mutation import add_qdq, misused
from tests.fuzz.trial import Feeds, Made
from tests.onnx_backend.trial import node_cases
from tests.random_graphs.trial import draw

Named = tuple[str, bytes, Feeds]
LEVELS = (8, 8, 8, 6, 4, 3, 2, 1)
FLAGS = ("", "", "", "USE_NCHW", "USE_FP16", "CPU_ONLY")


@cache
def sources() -> tuple[Named, ...]:
    """The sound models of one known operator; load them before processes are forked."""
    known = {op_type for _, op_type in VARIANTS}
    found = []
    for case in node_cases():
        model = ModelProto.FromString(case.model)
        if len(model.graph.node) == 1 and model.graph.node[0].op_type in known:
            found.append((case.name, case.model, case.feeds))
    return tuple(found)


def made(seed: int) -> Made:
    """The model of a seed."""
    rng = random.Random(seed)
    if rng.random() < 0.2:
        subject = draw(rng.getrandbits(31))
        model, feeds = subject.model, subject.feeds
    else:
        _, content, feeds = rng.choice(sources())
        model = ModelProto.FromString(content)
    if rng.random() < 0.25:
        add_qdq(model, rng)
    changed = misused(model, rng)
    options: dict[str, object] = {"feature_level": rng.choice(LEVELS)}
    if flags := rng.choice(FLAGS):
        options["flags"] = flags
    return changed, feeds, options
