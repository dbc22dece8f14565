"""Rewrites of int8 tensors, Clips and transposes: equal, and only where they are named."""

import random
from itertools import pairwise

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.operators.lib.movement import merged as merged_axes
from ep_nnapi.rewriting.rewrites import (
    clips_as_min_and_max,
    int8_as_uint8,
    transposes_in_fewer_axes,
)
from tests.cases import each
from tests.rewriting.equality import model_of, same, types

X = np.linspace(
    -3, 3, 61, dtype=np.float32
)  # beyond the range on both sides, for either zero point


def quantized(zero: np.ndarray, readers: int = 1, attributes: str = ""):
    text = f"q = QuantizeLinear {attributes} (x, s, z) "
    for i in range(readers):
        text += f"d{i} = DequantizeLinear (q, s, z) y{i} = Neg (d{i}) "
    constants = {"s": np.array(0.015625, np.float32), "z": zero}
    return model_of(text, {"x": X.shape}, {f"y{i}": X.shape for i in range(readers)}, constants)


@pytest.mark.parametrize("zero", [-128, -3, 0, 127])
@pytest.mark.parametrize("readers", [1, 3])
def test_real_numbers_stay(zero: int, readers: int):
    model = quantized(np.array(zero, np.int8), readers)
    found = int8_as_uint8(model, {"y0"})
    points = {t.name: t for t in found.graph.initializer}
    zeros = {points[n.input[2]].data_type for n in found.graph.node if "uantize" in n.op_type}
    assert zeros == {TensorProto.UINT8}
    same(model, found, {"x": X})


def test_a_stated_type_is_changed_too():
    model = quantized(np.array(0, np.int8), attributes="<output_dtype = 3>")
    same(model, int8_as_uint8(model, {"q"}), {"x": X})


def test_others_stay():
    assert int8_as_uint8(quantized(np.array(7, np.uint8)), {"q"}) is None
    assert int8_as_uint8(quantized(np.array(0, np.int8)), {"elsewhere"}) is None


def test_values_that_are_read_as_integers_stay():
    model = quantized(np.array(0, np.int8))
    model.graph.output.append(helper.make_tensor_value_info("q", TensorProto.INT8, X.shape))
    assert int8_as_uint8(model, {"q"}) is None
    model.graph.output.pop()
    model.graph.node.append(helper.make_node("Cast", ["q"], ["c"], to=int(TensorProto.FLOAT)))
    model.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, X.shape))
    assert int8_as_uint8(model, {"q"}) is None


# Clip as Max and Min: the same numbers for every combination of limits

CLIPS_X = np.array([-np.inf, -2, -1, -0.0, 0.5, 1, 2, np.inf], np.float32)


@pytest.mark.parametrize(
    ("low", "high", "made"),
    [
        (-1, 1, ["Max", "Min"]),
        (None, 1, ["Min"]),
        (0.5, None, ["Max"]),
        (2, 1, ["Max", "Min"]),
        (0, 0, ["Max", "Min"]),
    ],
)
def test_limits(low: float | None, high: float | None, made: list[str]):
    limits = {"low": low, "high": high}
    constants = {n: np.array(v, np.float32) for n, v in limits.items() if v is not None}
    given = ", ".join(name if name in constants else "" for name in limits).removesuffix(", ")
    model = model_of(
        f"[c] y = Clip (x, {given})", {"x": CLIPS_X.shape}, {"y": CLIPS_X.shape}, constants
    )
    found = clips_as_min_and_max(model, {"c"})
    assert types(found) == made
    same(model, found, {"x": CLIPS_X})


def test_clips_others_stay():
    """Without limits nothing is clipped; nodes that are not named were not refused."""
    ends = {"x": [8]}, {"y": [8]}
    model = model_of("[c] y = Clip (x, low)", *ends, {"low": np.float32(0)})
    assert clips_as_min_and_max(model, {"other"}) is None
    assert clips_as_min_and_max(model_of("[c] y = Clip (x)", *ends), {"c"}) is None
    old = model_of("[c] y = Clip <min = 0.0> (x)", *ends, opset=6)
    assert clips_as_min_and_max(old, {"c"}) is None


@each("seed", range(60))
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
    text = f"""a = Reshape (x, sizes) b = Transpose <perm = {perm}> (a)
        c = Reshape (b, end) y = Neg (c)"""
    constants = {"sizes": np.array(sizes), "end": np.array(end)}
    return model_of(text, {"x": start}, {"y": end}, constants)


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
def test_chains(start, sizes, perm, end, made):
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
