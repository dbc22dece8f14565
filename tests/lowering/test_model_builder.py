"""A cluster's calls as one NNAPI model: operands, constants, origins."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.model_builder import lower
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Lifetime
from ep_nnapi.nnapi.validate import validate
from ep_nnapi.options.target import MAX_FEATURE_LEVEL, NnapiFlag, Target
from tests.calls import Calls, run


def constants(low) -> list[np.ndarray]:
    return [o.array for o in low.model.operands if isinstance(o.value, Data)]


def fixed(array: np.ndarray, name: str) -> Value:
    return Value(name, DType.of(array.dtype), array.shape, constant=Constant.of(array))


def test_a_model_is_legal_and_numbered_in_order():
    g = Calls()
    y = g.dense(g.reshape(g.pool(g.relu(g.conv(g.input(1, 3, 8, 8), 4))), 1, 64), 10)
    model = g.lower(y).model
    validate(model, MAX_FEATURE_LEVEL)
    assert model.inputs == (0,)
    assert [model.lifetimes[i] for i in model.outputs] == [Lifetime.OUTPUT]
    expected = ["CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED"]
    assert [op.spec.name for op in model.operations] == expected


def test_every_operation_names_its_nodes():
    g = Calls()
    x = g.conv(g.input(1, 3, 8, 8), 4)
    y = g.relu(x)
    (op,) = g.lower(y).model.operations
    assert op.origin == (f"CONV_2D {x.name}", f"RELU {y.name}")


def test_a_permute_names_the_node_that_needs_it():
    g = Calls()
    y = g.mean(g.conv(g.input(1, 3, 4, 4), 2), (3,), keep=False)
    low = g.lower(y)
    expected = [(f"MEAN {y.name}",)]
    assert [op.origin for op in low.model.operations if op.spec is spec.TRANSPOSE] == expected


def test_equal_constants_are_one_operand():
    g = Calls()
    ones = np.ones((2, 3), np.float32)
    x = g.input(2, 3)
    y = g.add(g.add(x, fixed(ones, "a")), fixed(ones.copy(), "b"))
    assert len(constants(g.lower(y))) == 2  # the ones, and NONE of both activations


@pytest.mark.parametrize(
    "other",
    [np.full((2, 3), 2, np.float32), np.ones((1, 3), np.float32), np.ones((3,), np.float32)],
    ids=["numbers", "sizes", "rank"],
)
def test_constants_that_differ_stay_apart(other: np.ndarray):
    g = Calls()
    x = g.input(2, 3)
    y = g.add(g.add(x, fixed(np.ones((2, 3), np.float32), "a")), fixed(other, "b"))
    assert len(constants(g.lower(y))) == 3


def test_equal_bytes_of_other_types_stay_apart():
    """0 as INT32 and as FLOAT32 are the same four bytes."""
    g = Calls()
    x = g.input(2, 3)
    zero = fixed(np.zeros(1, np.float32), "zero")
    y = g.mean(g.add(x, zero), (0,), keep=False)
    types = [o.type for o in g.lower(y).model.operands if isinstance(o.value, Data)]
    assert OperandCode.TENSOR_FLOAT32 in types
    assert OperandCode.TENSOR_INT32 in types


def test_constants_are_copied():
    """A constant may be a view of memory that ONNX Runtime frees."""
    g = Calls()
    array = np.ones((2, 3), np.float32)
    y = g.add(g.input(2, 3), fixed(array, "a"))
    low = g.lower(y)
    array[:] = 7
    assert all((c == 1).all() for c in constants(low) if c.dtype == np.float32)


@pytest.mark.parametrize(("channels", "turned"), [(42, False), (43, True)])
def test_a_large_filter_is_copied_in_its_own_order(channels: int, turned: bool):
    """From 64 KiB on it is transposed for devices that need it, and not for those on ONNX."""
    g = Calls()
    low = g.lower(g.conv(g.input(1, channels, 4, 4), channels))
    (taps,) = (o for o in low.model.operands if o.size > 16 * channels and o.value)
    before = taps.elements
    assert before.transpose(0, 3, 1, 2).flags.c_contiguous is turned
    assert np.array_equal(before, taps.array)
    assert taps.array.flags.c_contiguous


def test_a_large_constant_that_lives_as_long_as_the_model_is_not_copied():
    g = Calls()
    array = np.arange(2**15, dtype=np.float32).reshape(2**5, -1)
    turned = replace(Constant.of(array), owned=True).transposed((1, 0))
    low = g.lower(
        g.add(g.input(2**10, 2**5), Value("w", DType.FLOAT, turned.shape, constant=turned))
    )
    (weights,) = (o for o in low.model.operands if o.size == array.size and o.value)
    assert np.shares_memory(weights.elements, array)
    assert np.array_equal(weights.array, array.T)


def test_a_constant_is_read_once():
    g, loads = Calls(), []

    def load() -> np.ndarray:
        loads.append(1)
        return np.ones((2, 3), np.float32)

    y = g.add(g.input(2, 3), Value("w", DType.FLOAT, (2, 3), constant=Constant((2, 3), 1, load)))
    assert not loads
    g.lower(y)
    assert len(loads) == 1


def test_rank_0_is_held_as_one_element():
    g = Calls()
    x = g.input()
    y = g.add(x, g.weights())
    low = g.lower(y)
    assert {low.model.operands[i].dimensions for i in (*low.model.inputs, *low.model.outputs)} == {
        (1,)
    }
    assert [(c.shape, c.nnapi_shape) for c in low.border.inputs] == [((), (1,))]
    results = run(low, g.feeds())
    assert results[y.name].shape == ()


def test_scalars_have_the_types_of_their_signature():
    g = Calls()
    y = g.softmax(g.input(2, 3), 1)
    model = g.lower(y).model
    match = model.operations[0].match(model.operands, MAX_FEATURE_LEVEL)
    types = {
        p.name: model.operands[i].type
        for p, i in zip(match.inputs, model.operations[0].inputs, strict=True)
    }
    assert types == {
        "input": OperandCode.TENSOR_FLOAT32,
        "beta": OperandCode.FLOAT32,
        "axis": OperandCode.INT32,
    }


@pytest.mark.parametrize(("level", "relaxed"), [(1, False), (2, True), (8, True)])
def test_relaxed_from_level_2_where_float16_is_allowed(level: int, relaxed: bool):
    """Source: NDK ANeuralNetworksModel_relaxComputationFloat32toFloat16, API level 28."""
    g = Calls()
    y = g.add(g.input(2, 3), g.weights(3))
    for flags in NnapiFlag.NONE, NnapiFlag.USE_FP16:
        low = lower(g.calls, g.inputs, [y], Target(level, flags))
        assert low.model.relaxed is (relaxed and flags is NnapiFlag.USE_FP16)


def test_the_same_cluster_is_written_the_same():
    def once():
        g = Calls()
        x = g.conv(g.input(1, 3, 8, 8), 4)
        return g.lower(g.add(x, g.tanh(x)))

    assert once() == once()


def test_an_output_that_two_nodes_share_leaves_twice():
    """Two transposes that do the same are one operand, which ONNX reads under both names."""
    g = Calls()
    x = g.tanh(g.input(2, 3))
    one, two = g.transpose(x, 1, 0), g.transpose(x, 1, 0)
    low = g.lower(one, two)
    assert len(low.model.outputs) == 1
    results = run(low, g.feeds())
    np.testing.assert_array_equal(results[one.name], results[two.name])
