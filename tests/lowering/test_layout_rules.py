"""Rules by which operations follow a permute: they compute the same numbers in NHWC."""

import pytest

from tests.calls import Calls, operations, permutes
from tests.layouts import same_numbers


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (1, 1, 1, 1), (4, 6, 6), (6,), ()])
def test_constants_broadcast_over_a_permuted_tensor(shape: tuple[int, ...]):
    """A constant of fewer dimensions gets the missing ones before it is permuted."""
    g = Calls()
    x = g.conv(g.input(1, 3, 6, 6), 4)
    y = g.conv(g.add(x, g.weights(*shape)), 2)
    assert permutes(g.lower(y)) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_concatenation_follows(axis: int):
    g = Calls()
    x = g.input(1, 3, 4, 4)
    both = [g.conv(x, 2), g.conv(x, 2)]
    y = g.conv(g.concat(both, axis), 2)
    low = g.lower(y)
    assert operations(low) == ["CONV_2D", "CONV_2D", "CONCATENATION", "CONV_2D"]
    assert permutes(low) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_softmax_follows(axis: int):
    g = Calls()
    y = g.conv(g.softmax(g.conv(g.input(1, 3, 4, 5), 2), axis), 2)
    assert permutes(g.lower(y)) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


def test_pad_follows():
    g = Calls()
    padded = g.pad(g.conv(g.input(1, 3, 4, 5), 2), [(0, 0), (0, 1), (2, 0), (1, 3)])
    y = g.conv(padded, 2)
    assert permutes(g.lower(y)) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


@pytest.mark.parametrize("axes", [(1,), (2, 3), (1, 2, 3), (3,)])
def test_reductions_that_keep_dimensions_follow(axes: tuple[int, ...]):
    g = Calls()
    x = g.conv(g.input(1, 3, 4, 4), 2)
    y = g.conv(g.add(x, g.mean(x, axes, keep=True)), 2)
    assert permutes(g.lower(y)) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


def test_reductions_that_drop_dimensions_follow_where_the_rest_keeps_its_order():
    """Over H and W, what is left of NHWC is (N, C), as of NCHW."""
    g = Calls()
    y = g.mean(g.conv(g.input(1, 3, 4, 4), 2), (2, 3), keep=False)
    assert permutes(g.lower(y)) == [">x0"]
    same_numbers(g, y)


def test_reductions_that_drop_a_dimension_between_do_not_follow():
    """Over W, NHWC leaves (N, H, C), which is not (N, C, H)."""
    g = Calls()
    x = g.conv(g.input(1, 3, 4, 4), 2)
    y = g.mean(x, (3,), keep=False)
    assert permutes(g.lower(y)) == [">x0", "MEAN " + y.name]
    same_numbers(g, y)


def test_flattening_before_a_dense_layer_reorders_its_weights():
    g = Calls()
    x = g.pool(g.conv(g.input(1, 3, 8, 8), 4))
    y = g.dense(g.reshape(x, 1, 64), 10)
    low = g.lower(y)
    assert operations(low) == ["CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED"]
    assert permutes(low) == [">x0"]
    same_numbers(g, y)


def test_flattening_for_two_readers_keeps_its_order():
    g = Calls()
    flat = g.reshape(g.conv(g.input(1, 3, 4, 4), 2), 1, 32)
    outputs = [g.dense(flat, 10), g.tanh(flat)]
    low = g.lower(*outputs)
    assert permutes(low) == [">x0", f"RESHAPE {flat.name}"]
    same_numbers(g, *outputs)


def test_flattening_that_leaves_the_cluster_keeps_its_order():
    g = Calls()
    flat = g.reshape(g.conv(g.input(1, 3, 4, 4), 2), 1, 32)
    outputs = [g.dense(flat, 10), flat]
    assert len(permutes(g.lower(*outputs))) == 2
    same_numbers(g, *outputs)


def test_one_pixel_is_flattened_for_nothing():
    """[1, C, 1, 1] has the same bytes in both layouts."""
    g = Calls()
    x = g.mean(g.conv(g.input(1, 3, 4, 4), 6), (2, 3), keep=True)
    y = g.tanh(g.reshape(x, 1, 6))
    low = g.lower(y)
    assert permutes(low) == [">x0"]
    assert operations(low) == ["CONV_2D", "MEAN", "RESHAPE", "TANH"]
    same_numbers(g, y)
