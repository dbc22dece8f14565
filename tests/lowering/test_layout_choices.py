"""No choice of layouts permutes fewer elements, against brute force on random clusters."""

import itertools
import random
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering import layouts as layout
from ep_nnapi.lowering import model_builder as lowering
from ep_nnapi.lowering.call import Call
from ep_nnapi.lowering.layout_rules import preserves_order
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi import spec
from tests.calls import Calls
from tests.layouts import NCHW, NHWC, same_numbers, unassigned


def drawn(seed: int, *, transposes: bool) -> tuple[Calls, list[Value]]:
    """A random cluster of 2 to 7 operations on small images, and what leaves it."""
    rng, g = random.Random(seed), Calls()
    values = [g.input(1, rng.choice((1, 2, 3)), 4, 4) for _ in range(rng.choice((1, 2)))]
    kinds = ["conv", "relu", "relu", "add", "concat", "softmax", "mean", "pad", "constant"]
    for _ in range(rng.randint(2, 7)):
        kind = rng.choice(kinds + ["transpose", "back"] * transposes)
        x = rng.choice(values)
        alike = rng.choice([v for v in values if v.shape == x.shape])
        made = {
            "conv": lambda x=x: g.conv(x, rng.choice((1, 2, 3))),
            "relu": lambda x=x: g.relu(x),
            "add": lambda x=x, y=alike: g.add(x, y),
            "concat": lambda x=x, y=alike: g.concat([x, y], 1),
            "softmax": lambda x=x: g.softmax(x, rng.choice((1, 2, 3))),
            "mean": lambda x=x: g.mean(x, rng.choice(((2, 3), (1,), (2,))), keep=True),
            "pad": lambda x=x: g.pad(x, [(0, 0), (0, 1), (1, 0), (0, 0)]),
            "constant": lambda x=x: g.add(x, g.weights(x.shape[1], 1, 1)),
            "transpose": lambda x=x: g.transpose(x, *NHWC),
            "back": lambda x=x: g.transpose(x, *NCHW),
        }
        values.append(made[kind]())
    read = {v.name for c in g.calls for v in c.reads}
    g.inputs = [v for v in g.inputs if v.name in read]
    written = [c.writes[0] for c in g.calls]
    return g, [v for v in written if v.name not in read or rng.random() < 0.15]


def moved(low: Lowered) -> int:
    """Elements permuted: by TRANSPOSE inside, and at the border unless they keep their order."""
    operands = low.model.operands
    inside = [operands[o.outputs[0]] for o in low.model.operations if o.spec is spec.TRANSPOSE]
    edges = [*low.border.inputs, *low.border.outputs]
    crossing = [e for e in edges if e.perm is not None and not preserves_order(e.shape, e.perm)]
    return sum(o.size for o in inside) + sum(int(np.prod(e.shape)) for e in crossing)


def choices(g: Calls, outputs: list[Value]) -> Iterator[list[Call]]:
    """The calls under every choice of those that may follow NHWC."""
    names = {v.name for v in outputs}
    rewrites = layout._nhwc_rewrites(g.calls, layout._tensors(g.calls, names), names, 8)
    for chosen in itertools.product((False, True), repeat=len(rewrites)):
        calls = list(g.calls)
        for changes in itertools.compress(rewrites.values(), chosen):
            for i, call in changes.items():
                calls[i] = call
        yield calls


def least(g: Calls, outputs: list[Value]) -> int:
    """The fewest elements that any choice permutes."""
    found = []
    for calls in choices(g, outputs):
        with (
            patch.object(lowering, "assign_layouts", lambda *_, calls=calls: calls),
            patch.object(lowering, "fuse_activations", lambda calls, *_: list(calls)),
        ):
            found.append(moved(g.lower(*outputs)))
    return min(found)


def unfused(g: Calls, outputs: list[Value]) -> Lowered:
    with patch.object(lowering, "fuse_activations", lambda calls, *_: list(calls)):
        return g.lower(*outputs)


def clusters(
    start: int, count: int, *, transposes: bool
) -> Iterator[tuple[str, Calls, list[Value]]]:
    """The drawn clusters that have outputs, and their seeds."""
    for seed in range(start, start + count):
        g, outputs = drawn(seed, transposes=transposes)
        if outputs:
            yield f"seed {seed}", g, outputs


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_no_choice_permutes_less(start: int):
    """Against brute force, on clusters without transposes of their own."""
    for seed, g, outputs in clusters(start, 50, transposes=False):
        assert moved(unfused(g, outputs)) == least(g, outputs), seed


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_choosing_is_never_worse_than_not_choosing(start: int):
    """Transposes of the model make more than the two layouts that are weighed."""
    for seed, g, outputs in clusters(start, 50, transposes=True):
        plain = unassigned(g, *outputs)
        assert moved(unfused(g, outputs)) <= moved(plain), seed


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_layouts_do_not_change_the_numbers(start: int):
    for seed, g, outputs in clusters(start, 50, transposes=True):
        same_numbers(g, *outputs, note=seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 9000, 1000))
def test_no_choice_permutes_less_at_length(start: int):
    for seed, g, outputs in clusters(start, 1000, transposes=False):
        assert moved(unfused(g, outputs)) == least(g, outputs), seed
        same_numbers(g, *outputs)
