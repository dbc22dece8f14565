"""Transposes in fewer axes: the same bits, found in random sizes and permutations."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from onnx import helper

from ep_nnapi.rewriting.transposes import merged_axes, transposes_in_fewer_axes
from tests.rewriting.equality import model_of, same, types


@pytest.mark.parametrize("seed", range(60))
def test_merged_axes_transpose_the_same(seed: int):
    draw = random.Random(seed)
    sizes = [draw.choice((1, 1, 2, 3, 5)) for _ in range(draw.randint(1, 7))]
    perm = draw.sample(range(len(sizes)), len(sizes))
    merged, order = merged_axes(sizes, perm)
    x = np.arange(np.prod(sizes)).reshape(sizes)
    np.testing.assert_array_equal(
        x.reshape(merged).transpose(order).ravel(), x.transpose(perm).ravel()
    )
    assert 1 not in merged
    assert all(b != a + 1 for a, b in pairwise(order))  # nothing left to merge


def chain(start: list[int], sizes: list[int], perm: list[int], end: list[int]):
    """Reshape, Transpose, Reshape and Neg, which is not part of the chain."""
    nodes = [
        helper.make_node("Reshape", ["x", "sizes"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=perm),
        helper.make_node("Reshape", ["b", "end"], ["c"]),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    constants = {"sizes": np.array(sizes), "end": np.array(end)}
    return model_of(nodes, {"x": start}, {"y": end}, constants)


KEPT = ["Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize(
    ("start", "sizes", "perm", "end", "made"),
    [
        # channel shuffle
        ([2, 6, 5, 5], [2, 2, 3, 5, 5], [0, 2, 1, 3, 4], [2, 6, 5, 5], KEPT),
        # pixel shuffle, in both orders of channels, and back
        ([2, 12, 3, 5], [2, 3, 2, 2, 3, 5], [0, 1, 4, 2, 5, 3], [2, 3, 6, 10], ["DepthToSpace"]),
        ([2, 12, 3, 5], [2, 2, 2, 3, 3, 5], [0, 3, 4, 1, 5, 2], [2, 3, 6, 10], ["DepthToSpace"]),
        ([2, 3, 6, 10], [2, 3, 3, 2, 5, 2], [0, 3, 5, 1, 2, 4], [2, 12, 3, 5], ["SpaceToDepth"]),
        # rank 6 with sizes of 1
        ([1, 8, 3], [1, 2, 1, 4, 1, 3], [0, 3, 2, 1, 4, 5], [1, 8, 3], KEPT),
    ],
)  # fmt: skip
def test_chains(
    start: list[int], sizes: list[int], perm: list[int], end: list[int], made: list[str]
):
    model = chain(start, sizes, perm, end)
    found = transposes_in_fewer_axes(model, {"b"})
    assert types(found) == [*made, "Neg"]
    x = np.arange(np.prod(start), dtype=np.float32).reshape(start)
    same(model, found, {"x": x})


def test_what_is_no_pixel_shuffle_or_needs_five_axes_stays():
    """Other sizes between the same reshapes; a permutation in which no axes stay together."""
    other = chain([2, 12, 3, 5], [2, 2, 2, 3, 3, 5], [0, 1, 4, 2, 5, 3], [2, 2, 9, 10])
    assert transposes_in_fewer_axes(other, {"b"}) is None
    reverse = chain([2, 3, 4, 30], [2, 3, 4, 5, 6], [4, 3, 2, 1, 0], [6, 5, 4, 6])
    assert transposes_in_fewer_axes(reverse, {"b"}) is None


def test_rank_4_and_chains_without_refused_nodes_stay():
    small = chain([2, 6, 5], [2, 2, 3, 5], [0, 2, 1, 3], [2, 6, 5])
    assert transposes_in_fewer_axes(small, {"b"}) is None
    large = chain([2, 6, 5, 5], [2, 2, 3, 5, 5], [0, 2, 1, 3, 4], [2, 6, 5, 5])
    assert transposes_in_fewer_axes(large, {"y"}) is None


def test_values_that_others_read_stay():
    model = chain([2, 6, 5, 5], [2, 2, 3, 5, 5], [0, 2, 1, 3, 4], [2, 6, 5, 5])
    model.graph.output.append(helper.make_tensor_value_info("a", 1, [2, 2, 3, 5, 5]))
    assert transposes_in_fewer_axes(model, {"b"}) is None
