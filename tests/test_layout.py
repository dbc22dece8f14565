"""Where a cluster permutes: at its border where it can, inside where it must, never in vain."""

import itertools
import random
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest

from ep_nnapi import layout, lowering
from ep_nnapi.follow import keeps_order
from ep_nnapi.forms import Peel
from ep_nnapi.lowering import Lowered
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.call import Call
from ep_nnapi.rejection import Reason
from ep_nnapi.rewrite import reads, writes
from ep_nnapi.value import Value
from tests.calls import Calls, ints, operations, permutes, run

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def unassigned(g: Calls, *outputs: Value) -> Lowered:
    """The cluster with every operation in the layout it was written in: the reference."""
    with (
        patch.object(lowering, "assign_layouts", lambda calls, *_: list(calls)),
        patch.object(lowering, "fuse_activations", lambda calls, _: list(calls)),
    ):
        return g.lower(*outputs)


def same_numbers(g: Calls, *outputs: Value, note: str = "") -> None:
    """The cluster computes what it does without any choice of layouts.

    Sums of 144 float32 products at most, in another order: 1e-4 of values of about 10.
    """
    want = run(unassigned(g, *outputs), g.feeds())
    for name, got in run(g.lower(*outputs), g.feeds()).items():
        np.testing.assert_allclose(got, want[name], 1e-4, 1e-4, err_msg=f"{name} {note}")


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
    with pytest.raises(Peel) as caught:
        g.lower(g.relu(flat), level=1)
    assert caught.value.nodes == (f"RESHAPE {flat.name}",)
    assert caught.value.reason is Reason.LEVEL
    assert "permute inside" in caught.value.detail
    assert "TRANSPOSE" in caught.value.detail
    g.lower(g.relu(flat), level=2)  # brought TRANSPOSE


# no choice is better -------------------------------------------------------------------------


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
    read = {v.name for c in g.calls for v in reads(c)}
    g.inputs = [v for v in g.inputs if v.name in read]
    written = [writes(c)[0] for c in g.calls]
    return g, [v for v in written if v.name not in read or rng.random() < 0.15]


def moved(low: Lowered) -> int:
    """Elements permuted: by TRANSPOSE inside, and at the border unless they keep their order."""
    operands = low.model.operands
    inside = [operands[o.outputs[0]] for o in low.model.operations if o.spec is spec.TRANSPOSE]
    edges = [*low.border.inputs, *low.border.outputs]
    crossing = [e for e in edges if e.perm is not None and not keeps_order(e.shape, e.perm)]
    return sum(o.size for o in inside) + sum(int(np.prod(e.shape)) for e in crossing)


def choices(g: Calls, outputs: list[Value]) -> Iterator[list[Call]]:
    """The calls under every choice of those that may follow NHWC."""
    names = {v.name for v in outputs}
    followers = layout._followers(g.calls, layout._tensors(g.calls, names), names, 8)
    for chosen in itertools.product((False, True), repeat=len(followers)):
        calls = list(g.calls)
        for changes in itertools.compress(followers.values(), chosen):
            for i, call in changes.items():
                calls[i] = call
        yield calls


def least(g: Calls, outputs: list[Value]) -> int:
    """The fewest elements that any choice permutes."""
    found = []
    for calls in choices(g, outputs):
        with (
            patch.object(lowering, "assign_layouts", lambda *_, calls=calls: calls),
            patch.object(lowering, "fuse_activations", lambda calls, _: list(calls)),
        ):
            found.append(moved(g.lower(*outputs)))
    return min(found)


def unfused(g: Calls, outputs: list[Value]) -> Lowered:
    with patch.object(lowering, "fuse_activations", lambda calls, _: list(calls)):
        return g.lower(*outputs)


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_no_choice_permutes_less(start: int):
    """Against brute force, on clusters without transposes of their own."""
    for seed in range(start, start + 50):
        g, outputs = drawn(seed, transposes=False)
        if outputs:
            assert moved(unfused(g, outputs)) == least(g, outputs), f"seed {seed}"


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_choosing_is_never_worse_than_not_choosing(start: int):
    """Transposes of the model make more than the two layouts that are weighed."""
    for seed in range(start, start + 50):
        g, outputs = drawn(seed, transposes=True)
        if outputs:
            plain = unassigned(g, *outputs)
            assert moved(unfused(g, outputs)) <= moved(plain), f"seed {seed}"


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_layouts_do_not_change_the_numbers(start: int):
    for seed in range(start, start + 50):
        g, outputs = drawn(seed, transposes=True)
        if outputs:
            same_numbers(g, *outputs, note=f"seed {seed}")


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 9000, 1000))
def test_no_choice_permutes_less_at_length(start: int):
    for seed in range(start, start + 1000):
        g, outputs = drawn(seed, transposes=False)
        if outputs:
            assert moved(unfused(g, outputs)) == least(g, outputs), f"seed {seed}"
            same_numbers(g, *outputs)


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
