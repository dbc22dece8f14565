"""Permutes in a cluster: where they are inserted, absorbed, or not supported."""

import pytest

from ep_nnapi.lowering.permutes import UnsupportedPermute
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from tests.calls import Calls, ints, operations, permutes
from tests.layouts import NCHW, NHWC, same_numbers


def test_transposes_of_a_model_for_nhwc_cancel():
    """Transposes of converters around each convolution of a model that was NHWC."""
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
