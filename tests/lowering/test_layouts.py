"""Where a cluster permutes: at its border where it can, inside where it must, never in vain."""

import pytest

from ep_nnapi.errors import Reason
from ep_nnapi.lowering.permutes import UnsupportedPermute
from ep_nnapi.nnapi import spec
from tests.calls import Calls, ints, operations, permutes
from tests.layouts import NCHW, NHWC, same_numbers

# from an image to an image -------------------------------------------------------------------


def test_convolutions_in_a_row_permute_at_each_border_only():
    g = Calls()
    y = g.conv(g.relu(g.conv(g.input(1, 3, 8, 8), 4)), 2)
    low = g.lower(y)
    assert operations(low) == ["CONV_2D", "CONV_2D"]
    assert permutes(low) == [">x0", f"{y.name}>"]
    same_numbers(g, y)


def test_level_1_convolves_without_transpose():
    """NNAPI 1.0 has no TRANSPOSE: the border does it all."""
    g = Calls()
    y = g.conv(g.relu(g.conv(g.input(1, 3, 8, 8), 4)), 2)
    assert permutes(g.lower(y, level=1)) == [">x0", f"{y.name}>"]


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


# from an image to a row ----------------------------------------------------------------------


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


# the model's own transposes ------------------------------------------------------------------


def test_transposes_of_a_model_for_nhwc_cancel():
    """What converters write around each convolution of a model that was NHWC."""
    g = Calls()
    x = g.input(1, 8, 8, 3)
    y = g.transpose(g.conv(g.transpose(x, *NCHW), 4), *NHWC)
    z = g.transpose(g.conv(g.transpose(g.tanh(y), *NCHW), 4), *NHWC)
    low = g.lower(z)
    assert operations(low) == ["CONV_2D", "TANH", "CONV_2D"]
    assert permutes(low) == []
    same_numbers(g, z)


def test_transposes_that_undo_each_other_vanish():
    g = Calls()
    y = g.tanh(g.transpose(g.transpose(g.input(2, 3, 4), 2, 0, 1), 1, 2, 0))
    assert operations(g.lower(y)) == ["TANH"]
    same_numbers(g, y)


def test_transposes_in_a_row_are_one():
    g = Calls()
    y = g.tanh(g.transpose(g.transpose(g.input(2, 3, 4), 1, 0, 2), 0, 2, 1))
    assert operations(g.lower(y)) == ["TRANSPOSE", "TANH"]
    same_numbers(g, y)


def test_a_transpose_remembers_every_node_it_stands_for():
    """So that a device which declines it sends all of them to the CPU."""
    g = Calls()
    first = g.transpose(g.input(2, 3, 4), 1, 0, 2)
    second = g.transpose(first, 0, 2, 1)
    y = g.tanh(second)
    (op,) = [o for o in g.lower(y).model.operations if o.spec is spec.TRANSPOSE]
    assert set(op.origin) >= {f"TRANSPOSE {first.name}", f"TRANSPOSE {second.name}"}


def test_a_cluster_of_transposes_that_cancel_still_writes_its_output():
    """NNAPI lets no model input be an output."""
    g = Calls()
    y = g.transpose(g.transpose(g.input(2, 3, 4), 2, 0, 1), 1, 2, 0)
    low = g.lower(y)
    assert len(operations(low)) == 1
    same_numbers(g, y)


# readers inside and outside ------------------------------------------------------------------


def test_a_tensor_read_inside_and_outside_leaves_through_the_border():
    g = Calls()
    x = g.conv(g.input(1, 3, 4, 4), 4)
    y = g.conv(x, 2)
    low = g.lower(x, y)
    assert operations(low) == ["CONV_2D", "CONV_2D"]
    assert permutes(low) == [">x0", f"{x.name}>", f"{y.name}>"]
    same_numbers(g, x, y)


def test_an_input_read_in_both_layouts_enters_in_both():
    """No operation inside; what enters as ONNX has it is not even copied."""
    g = Calls()
    x = g.input(1, 3, 4, 4)
    y, z = g.conv(x, 4), g.mean(x, (3,), keep=False)
    low = g.lower(y, z)
    assert operations(low) == ["CONV_2D", "MEAN"]
    assert [(c.name, c.perm) for c in low.border.inputs] == [("x0", NHWC), ("x0", None)]
    same_numbers(g, y, z)


def test_an_input_read_twice_in_one_layout_enters_once():
    g = Calls()
    x = g.input(1, 3, 4, 4)
    outputs = [g.conv(x, 4), g.conv(x, 2)]
    assert len(g.lower(*outputs).border.inputs) == 1


def test_an_operation_between_a_convolution_and_a_stay_behind_follows_the_larger():
    """RELU joins the convolution, whose tensor is the same; the shrunk one is permuted."""
    g = Calls()
    x = g.conv(g.input(1, 3, 8, 8), 4)
    small = g.mean(x, (3,), keep=True)
    y = g.mean(small, (2,), keep=False)
    low = g.lower(y)
    assert permutes(low)[1:] in ([f"MEAN {y.name}"], [])
    same_numbers(g, y)


def test_level_1_peels_what_needs_a_permute_inside():
    g = Calls()
    flat = g.reshape(g.conv(g.input(1, 3, 4, 4), 2), 1, 32)
    with pytest.raises(UnsupportedPermute) as caught:
        g.lower(g.relu(flat), level=1)
    assert caught.value.nodes == (f"RESHAPE {flat.name}",)
    assert caught.value.reason is Reason.LEVEL
    assert "permute inside" in caught.value.detail
    assert "TRANSPOSE" in caught.value.detail
    g.lower(g.relu(flat), level=2)  # brought TRANSPOSE


# constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [spec.RESHAPE, spec.TRANSPOSE], ids=lambda r: r.name)
def test_a_constant_is_reshaped_or_transposed(row):
    """As a lowering may ask for: such a call reads nothing that another computes."""
    g = Calls()
    weights = g.weights(1, 1, 4, 4)
    name, numbers = ("shape", weights.shape) if row is spec.RESHAPE else ("perm", (0, 1, 3, 2))
    moved = g.call(row, weights.shape, weights, **{name: ints(numbers)})
    y = g.add(g.conv(g.input(1, 3, 4, 4), 1), moved)
    assert row.name in operations(g.lower(y))
    same_numbers(g, y)
