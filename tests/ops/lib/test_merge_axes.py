"""Merging of axes: shapes keep their elements, and broadcast as before."""

from math import prod
from random import Random

import numpy as np

from ep_nnapi.ops.lib.merge_axes import merge_broadcast_axes, runs, sizes_around


def test_runs_are_of_equal_keys():
    assert runs([]) == []
    assert runs(["a", "a", "b", "a"]) == [[0, 1], [2], [3]]


def test_sizes_before_and_after_an_axis():
    assert sizes_around((2, 3, 4), 0) == (1, 2, 12)
    assert sizes_around((2, 3, 4), 2) == (6, 4, 1)


def test_merged_shapes_broadcast_to_the_same_elements():
    rng = Random(7)
    for case in range(200):
        out = [rng.choice((1, 2, 3)) for _ in range(rng.randint(1, 6))]
        shapes = [
            tuple(rng.choice((1, s)) for s in out)[rng.randint(0, len(out)) :] for _ in range(2)
        ]
        out = list(np.broadcast_shapes(*shapes, tuple(out)))
        merged, merged_out = merge_broadcast_axes(shapes, out)
        assert prod(merged_out) == prod(out), (7, case)
        assert [prod(m) for m in merged] == [prod(s) for s in shapes], (7, case)
        for shape, small in zip(shapes, merged, strict=True):
            x = np.arange(prod(shape))
            wide = np.broadcast_to(x.reshape(shape), out).ravel()
            assert np.array_equal(np.broadcast_to(x.reshape(small), merged_out).ravel(), wide)
