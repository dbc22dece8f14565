"""Elements put where constant indexes say: exact, so every comparison is for equality."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import FL2, FL3, FL8, f32, i64, ints, matches, node, on_cpu, rejects


@pytest.mark.parametrize(("shape", "of", "axis"), [((5,), (3,), 0), ((4, 5), (2, 5), 0)])
def test_scatter_elements_matches(shape, of, axis):
    size = shape[axis]
    index = np.stack([np.random.default_rng(0).permutation(size)] * 9, 1)[: of[0], : of[-1]]
    index = (index if len(of) == 2 else index[:, 0]) - size // 2
    given = (f32(*shape), index, f32(*index.shape))
    matches(node("ScatterElements", *given, axis=axis), FL3)
    matches(node("Scatter", *given, axis=axis, opset=10), FL3, oracle=on_cpu)


def test_scatter_nd_matches():
    rows = ints(2, 0).reshape(2, 1)
    matches(node("ScatterND", f32(4, 5), rows, f32(2, 5)), FL3)
    points = ints(2, 0, 1, -1).reshape(2, 2)
    matches(node("ScatterND", f32(4, 5), points, f32(2)), FL3)
    matches(node("ScatterND", f32(2, 2, 2, 2, 2), ints(1, 0).reshape(1, 2), f32(1, 2, 2, 2)), FL3)


def test_scatter_refusals():
    rows = ints(2, 0).reshape(2, 1)
    rejects(node("ScatterND", f32(4, 5), rows, f32(2, 5)), FL2, Reason.LEVEL, "GATHER")
    computed = node("ScatterND", f32(4, 5), i64(2, 1), f32(2, 5))
    rejects(computed, FL8, Reason.CONSTANT, "x1 must be constant")
    adding = node("ScatterND", f32(4), ints(1).reshape(1, 1), f32(1), reduction="add")
    rejects(adding, FL8, Reason.ATTRIBUTE, "reduction is 'add'")
    whole = node("ScatterND", f32(2, 3), np.zeros((1, 0), np.int64), f32(1, 2, 3))
    rejects(whole, FL8, Reason.SHAPE, "has 0 indexes for rank 2")
