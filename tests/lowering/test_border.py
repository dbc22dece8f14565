"""Permutes, casts and reshapes of the host at a cluster's border."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing, OtherNumbers, Place, Unconverted
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.runtime import RunOptions

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
NHWC = (0, 2, 3, 1)
OPTIONS = RunOptions(timeout_ns=5)


def plain(name: str, shape: tuple[int, ...], operand: int = 0) -> Crossing:
    return Crossing(name, DType.FLOAT, shape, operand, None, shape or (1,), F32)


def image(name: str, shape: tuple[int, ...], operand: int = 0) -> Crossing:
    held = tuple(shape[i] for i in NHWC)
    return Crossing(name, DType.FLOAT, shape, operand, NHWC, held, F32)


def integers(name: str, shape: tuple[int, ...], operand: int = 0) -> Crossing:
    return Crossing(name, DType.INT64, shape, operand, None, shape, I32)


class Fake:
    """A compilation that gives what it is told and remembers what it was given."""

    def __init__(self, results: Sequence[np.ndarray], *, writes: bool = True) -> None:
        self.results, self.writes = results, writes

    def run(self, inputs, outputs=(), options=None):
        self.inputs, self.outputs, self.options = inputs, outputs, options
        given = [
            out if out is not None and self.writes else result
            for out, result in zip(outputs, self.results, strict=True)
        ]
        for out, result in zip(given, self.results, strict=True):
            out[...] = result
        return given


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


class Outputs(list):
    """Arrays of ONNX Runtime, made when they are asked for."""

    def allocate(self, dtype=np.float32):
        def once(index: int, shape: tuple[int, ...]) -> np.ndarray:
            assert index == len(self)
            self.append(np.empty(shape, dtype))
            return self[-1]

        return once


def test_a_plain_input_is_not_copied():
    x = drawn(2, 3)
    entered = plain("x", (2, 3)).enter(x)
    assert np.shares_memory(entered, x)


def test_rank_0_enters_as_one_element():
    entered = plain("x", ()).enter(np.float32(7).reshape(()))
    assert entered.shape == (1,)
    assert entered[0] == 7


def test_a_permuted_input_is_contiguous():
    x = drawn(1, 3, 4, 5)
    entered = image("x", x.shape).enter(x)
    assert entered.flags.c_contiguous
    np.testing.assert_array_equal(entered, x.transpose(NHWC))


def test_int64_enters_as_int32():
    entered = integers("x", (3,)).enter(np.array([1, -2, 2**31 - 1]))
    assert entered.dtype == I32
    np.testing.assert_array_equal(entered, [1, -2, 2**31 - 1])


def test_outputs_are_permuted_back():
    x, out = drawn(1, 3, 4, 5), np.empty((1, 3, 4, 5), np.float32)
    crossing = image("y", x.shape)
    crossing.leave(crossing.enter(x), out)
    np.testing.assert_array_equal(out, x)


def test_int32_leaves_as_int64():
    out = np.empty((3,), np.int64)
    integers("y", (3,)).leave(np.array([1, -2, 3], np.int32), out)
    np.testing.assert_array_equal(out, [1, -2, 3])


@pytest.mark.parametrize("writes", [True, False], ids=["in place", "own array"])
def test_a_plain_output_is_written_by_the_runtime(writes: bool):
    """Into ONNX Runtime's array; a runtime that returns its own is copied from."""
    y, outputs = drawn(2, 3), Outputs()
    fake = Fake([y.copy()], writes=writes)
    border = Border((plain("x", (2, 3)),), (plain("y", (2, 3)),)).bind(["x"], ["y"])
    border.run(fake, [drawn(2, 3)], outputs.allocate(), OPTIONS)
    np.testing.assert_array_equal(outputs[0], y)
    assert np.shares_memory(fake.outputs[0], outputs[0])
    assert fake.options is OPTIONS


def test_a_permuted_output_is_the_runtimes_own_array():
    y, outputs = drawn(1, 3, 4, 5), Outputs()
    crossing = image("y", y.shape)
    fake = Fake([crossing.enter(y)])
    border = Border((plain("x", (2, 3)),), (crossing,)).bind(["x"], ["y"])
    border.run(fake, [drawn(2, 3)], outputs.allocate(), OPTIONS)
    assert fake.outputs == [None]
    np.testing.assert_array_equal(outputs[0], y)


def test_inputs_are_found_by_name_and_given_in_the_models_order():
    a, b = drawn(1, 3, 4, 5), drawn(2)
    edges = (plain("b", (2,), 2), image("a", a.shape, 0), plain("a", a.shape, 1))
    fake = Fake([drawn(2)])
    border = Border(edges, (plain("y", (2,)),)).bind(["unused", "b", "a"], ["y"])
    border.run(fake, [drawn(9), b, a], Outputs().allocate(), OPTIONS)
    assert [i.shape for i in fake.inputs] == [(1, 4, 5, 3), (1, 3, 4, 5), (2,)]
    assert np.shares_memory(fake.inputs[1], a)


def test_outputs_come_in_the_order_they_are_asked_for():
    first, second, outputs = drawn(2), drawn(3), Outputs()
    edges = (plain("a", (2,), 0), plain("b", (3,), 1))
    border = Border((plain("x", (1,)),), edges).bind(["x"], ["b", "a"])
    border.run(Fake([first, second]), [drawn(1)], outputs.allocate(), OPTIONS)
    assert [o.shape for o in outputs] == [(3,), (2,)]
    np.testing.assert_array_equal(outputs[0], second)


def test_one_operand_leaves_under_two_names():
    y, outputs = drawn(2), Outputs()
    edges = (plain("a", (2,), 0), plain("b", (2,), 0))
    border = Border((plain("x", (1,)),), edges).bind(["x"], ["a", "b"])
    border.run(Fake([y]), [drawn(1)], outputs.allocate(), OPTIONS)
    np.testing.assert_array_equal(outputs[0], y)
    np.testing.assert_array_equal(outputs[1], y)
    assert not np.shares_memory(*outputs)


def test_other_sizes_than_the_declared_ones_are_said():
    with pytest.raises(ModelError, match=r"x has sizes \[2, 4\], .* declares \[2, 3\]"):
        plain("x", (2, 3)).enter(np.zeros((2, 4), np.float32))


@pytest.mark.parametrize("number", [8, -8, -(2**63), 2**63 - 1])
def test_numbers_beyond_the_supposed_limit_are_said(number: int) -> None:
    """The least INT64 has no absolute value; the limit itself is within."""
    ids = replace(integers("ids", (2,)), limit=7)
    np.testing.assert_array_equal(ids.enter(np.array([7, -7])), [7, -7])
    with pytest.raises(OtherNumbers, match="ids has numbers beyond 7"):
        ids.enter(np.array([0, number]))


def test_a_border_without_conversions_names_its_tensors():
    """INT64 may be INT32, tensors of other ranks have one axis: that is done without Python too."""
    entering = (replace(plain("x", (2, 3), 1), nnapi_shape=(6,)), integers("i", (4,)))
    leaving = (integers("j", (2,)), plain("y", (), 1))
    bound = Border(entering, leaving).bind(["x", "i"], ["j", "y"])
    inputs = (Place(1, (4,), narrowed=True), Place(0, (2, 3), flat=True))
    outputs = (Place(0, (2,), narrowed=True), Place(1, (), flat=True))
    assert bound.unconverted == Unconverted(inputs, outputs)


@pytest.mark.parametrize(
    ("entering", "leaving"),
    [
        (image("x", (1, 2, 3, 4)), plain("y", (2,))),
        (replace(plain("x", (1, 2)), nnapi_shape=(2, 1)), plain("y", (2,))),
        (plain("x", (2,), 1), plain("y", (2,))),
    ],
    ids=["permuted", "reshaped", "two operands"],
)
def test_a_border_with_other_conversions_names_none(entering, leaving):
    assert Border((entering,), (leaving,)).bind(["x"], ["y"]).unconverted is None
