"""Permutes in a cluster: inserted, absorbed, not supported; and reshapes that move or cancel."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.call import apply
from ep_nnapi.lowering.model_builder import lower
from ep_nnapi.lowering.permutes import UnsupportedPermute
from ep_nnapi.lowering.reshapes import delay_reshapes
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.options.target import Target
from tests.calls import Calls, ints, operations, permutes, run
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


SHAPE, FLAT = (1, 2, 1, 6), (1, 2, 6)


def names(g: Calls, *kept: Value, level: int = 8) -> list[str]:
    return [c.spec.name for c in delay_reshapes(g.calls, {v.name for v in kept}, level)]


def test_a_chain_of_convolutions_of_sequences_needs_no_reshape_inside():
    g = Calls()
    x = g.input(*SHAPE)
    inner = g.relu(g.reshape(g.conv(x, 3), 1, 3, 6))
    y = g.reshape(g.conv(g.reshape(inner, 1, 3, 1, 6), 2), *FLAT)
    plain = lower(g.calls[:1], g.inputs, [g.calls[0].outputs[0].value], Target(8))
    low = g.lower(y)
    assert operations(plain) == ["CONV_2D"]
    assert operations(low) == ["CONV_2D", "CONV_2D", "TRANSPOSE", "RESHAPE"]


def test_moving_reshapes_does_not_change_the_numbers():
    def network(*, reshaped: bool) -> np.ndarray:
        g = Calls()
        x = g.conv(g.input(*SHAPE), 2)
        a = g.reshape(x, *FLAT) if reshaped else x
        b = g.add(g.tanh(a), a)
        y = g.conv(g.reshape(b, *SHAPE) if reshaped else b, 2)
        return run(g.lower(y), g.feeds())[y.name]

    with_reshapes, without = network(reshaped=True), network(reshaped=False)
    assert without.any()
    np.testing.assert_array_equal(with_reshapes, without)


def test_operations_on_two_reshaped_values_move():
    g = Calls()
    a, b = (g.reshape(g.input(*SHAPE), *FLAT) for _ in range(2))
    y = g.reshape(g.add(a, b), 12)
    assert names(g, y) == ["ADD", "RESHAPE"]


@pytest.mark.parametrize(
    ("size", "computed"),
    [(1, False), (1, True), (FLAT[-1], False)],
    ids=["a constant", "a computed number", "a constant row"],
)
def test_what_broadcasts_along_the_last_axis_does_not_hold_a_reshape(size, computed):
    g = Calls()
    other = g.input(size) if computed else g.weights(size)
    y = g.reshape(g.add(g.reshape(g.input(*SHAPE), *FLAT), other), *SHAPE)
    moved = delay_reshapes(g.calls, {y.name}, 8)
    assert [c.spec.name for c in moved] == ["ADD", "RESHAPE"]
    assert moved[1].outputs == (y,)


def test_two_reshapes_become_one():
    g = Calls()
    y = g.reshape(g.reshape(g.input(*SHAPE), *FLAT), 12)
    assert names(g, y) == ["RESHAPE"]


def test_a_value_that_leaves_keeps_its_shape():
    g = Calls()
    inner = g.relu(g.reshape(g.input(*SHAPE), *FLAT))
    y = g.tanh(g.reshape(inner, *SHAPE))
    low = g.lower(inner, y)
    results = run(low, g.feeds())
    assert results[inner.name].shape == FLAT
    np.testing.assert_allclose(results[y.name], np.tanh(results[inner.name]).reshape(SHAPE), 1e-6)


def stays(build) -> bool:
    """True if the calls stay as they are."""
    g = Calls()
    y = build(g, g.input(*SHAPE))
    return delay_reshapes(g.calls, {y.name}, 8) is g.calls


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda g, x: g.relu(g.reshape(x, *FLAT)), id="one reshape"),
        pytest.param(
            lambda g, x: g.reshape(g.softmax(g.reshape(x, *FLAT), 1), *SHAPE), id="along an axis"
        ),
        pytest.param(
            lambda g, x: g.reshape(g.add(g.reshape(x, *FLAT), g.input(*FLAT)), *SHAPE),
            id="with a value that is not reshaped",
        ),
        pytest.param(
            lambda g, x: g.reshape(
                g.add(g.reshape(x, *FLAT), g.reshape(g.input(1, 12), *FLAT)), *SHAPE
            ),
            id="of sources of two shapes",
        ),
        pytest.param(
            lambda g, x: g.reshape(
                g.add(g.reshape(x, *FLAT), g.reshape(g.input(*SHAPE[:3], 1), 1, 2, 1)), *SHAPE
            ),
            id="broadcast",
        ),
        pytest.param(
            lambda g, x: g.reshape(g.add(g.reshape(x, *FLAT), g.weights(2, 6)), *SHAPE),
            id="with a constant of several rows",
        ),
        pytest.param(
            lambda g, x: g.reshape(g.add(g.reshape(x, 6, 2), g.weights(2)), *SHAPE),
            id="of another last axis",
        ),
    ],
)
def test_other_reshapes_stay(build):
    assert stays(build)


def select(g: Calls, x: Value, other: Value) -> Value:
    """Chooses by a constant condition of the rank of `other`."""
    condition = np.ones((1,) * len(other.shape), np.bool_)
    which = Value("which", DType.BOOL, condition.shape, constant=Constant.of(condition))
    return g.call(spec.SELECT, x.shape, which, x, other)


@pytest.mark.parametrize(
    ("operation", "source", "seen", "rank", "moves"),
    [
        (Calls.add, (2, 6), FLAT, 2, True),
        (Calls.add, (2, 6), FLAT, 3, False),
        (select, (1,), (1, 1), 2, False),
        (select, (1, 1, 1), (1, 1), 2, False),
    ],
    ids=["lower", "higher", "select, higher", "select, lower"],
)
def test_the_rank_of_a_constant_decides_what_moves(operation, source, seen, rank, moves):
    """A higher one than the source's would be the result's; SELECT takes equal ranks alone."""
    g = Calls()
    inner = operation(g, g.reshape(g.input(*source), *seen), g.weights(*(1,) * rank))
    y = g.tanh(g.reshape(inner, *source))
    assert names(g, y).count("RESHAPE") == (0 if moves else 2)
    assert run(g.lower(y), g.feeds())[y.name].shape == source


def test_booleans_which_reshape_lacks_are_computed_after_reshapes():
    g = Calls()
    x = g.reshape(g.reshape(g.input(12), *SHAPE), *FLAT)
    found = Value("found", DType.BOOL, FLAT)
    g.calls.append(apply(spec.GREATER, x, g.weights(1), out=found))
    moved = delay_reshapes(g.calls, {"found"}, 8)
    assert [c.spec.name for c in moved] == ["RESHAPE", "GREATER"]
    assert moved[-1].outputs == (found,)


def test_a_value_that_is_seen_with_another_quantization_stays():
    g = Calls()
    plain, seen = Quantization((0.5,), (3,)), Quantization((1.0,), (0,))
    values = [Value(f"x{i}", DType.UINT8, (SHAPE, FLAT, SHAPE)[i], plain) for i in range(3)]
    for x, y in pairwise(values):
        g.calls.append(apply(spec.RESHAPE, x, shape=ints(y.shape), out=y))
    out = Value("y", DType.FLOAT, SHAPE)
    g.calls.append(apply(spec.DEQUANTIZE, replace(values[2], quantization=seen), out=out))
    moved = delay_reshapes(g.calls, {"y"}, 8)
    assert [c.spec.name for c in moved] == ["RESHAPE", "DEQUANTIZE"]
    assert moved[-1] == g.calls[-1]
