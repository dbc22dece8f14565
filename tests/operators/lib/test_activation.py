"""Clipped bytes, bounds of Clip and Relu, and polynomials."""

from math import inf

import numpy as np
import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.activation import bounds_of, clip, is_implied, polynomial
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import Target
from tests.operators.lib.emitting import constant, emitted, floats, node, ran, returned, value

X = floats(3, 4, low=-8, high=8)


def bound(number: float | None, dtype: type = np.float32) -> Constant | None:
    return None if number is None else Constant.of(np.array([number], dtype))


Q = Quantization((0.1,), (100,))  # -10 to 15.5


def byte(name: str, q: Quantization = Q) -> Value:
    return Value(name, DType.UINT8, (1, 256), q)


@pytest.mark.parametrize(
    ("low", "high", "operations"),
    [
        (-10.0, 15.5, ["RESHAPE"]),  # all that the type has
        (-10.5, None, ["RESHAPE"]),
        (0.0, None, ["RELU"]),
        (0.0, 16.0, ["RELU"]),  # the upper bound is beyond the type
        (0.0, 6.0, ["RELU6"]),
        (-2.0, None, ["RESHAPE", "MAXIMUM"]),
        (None, 3.0, ["RESHAPE", "MINIMUM"]),
        (-2.0, 3.0, ["RESHAPE", "MAXIMUM", "MINIMUM"]),
    ],
)
def test_quantized_values(low: float | None, high: float | None, operations: list[str]) -> None:
    x, y = byte("x"), byte("y")
    made = emitted(clip, node([x], [y]), x, (bound(low), bound(high)), y, inputs=[x])
    assert made.names == operations
    stored = np.arange(256, dtype=np.uint8).reshape(1, 256)
    real = np.clip(
        (stored - 100.0) * 0.1, -inf if low is None else low, inf if high is None else high
    )
    np.testing.assert_array_equal(ran(made, y, {"x": stored}, 8), np.rint(real / 0.1) + 100)


def test_quantized_values_need_constant_bounds() -> None:
    x, y, low = byte("x"), byte("y"), value("low", np.zeros(1, np.float32))
    with pytest.raises(Reject, match="low must be constant to clip a quantized tensor") as caught:
        emitted(clip, node([x, low], [y]), x, (low, None), y)
    assert caught.value.reason is Reason.CONSTANT


def clip_node(since: int, *inputs: Value | None, op_type: str = "Clip", **attributes: object):
    x = value("x", X)
    return Node(
        GraphNode(0, "n", op_type, "", since, (x, *inputs), (value("y", X),), attributes), Target(8)
    )


def numbers(bounds: tuple[Constant | None, ...]) -> list[float | None]:
    return [None if b is None else float(b.array.reshape(-1)[0]) for b in bounds]


def test_bounds_are_attributes_before_opset_11_and_inputs_from_then_on() -> None:
    assert numbers(bounds_of(clip_node(6, min=-1.0))) == [-1.0, None]
    assert numbers(bounds_of(clip_node(6))) == [None, None]
    high = constant(np.float32(4).reshape(()), name="high")
    assert numbers(bounds_of(clip_node(11, None, high))) == [None, 4.0]
    assert numbers(bounds_of(clip_node(6, op_type="Relu"))) == [0.0, None]
    computed = value("low", np.zeros((), np.float32))
    assert bounds_of(clip_node(11, computed)) == (computed, None)


def test_quantized_bounds_are_their_real_numbers() -> None:
    low = constant(np.array([80], np.uint8), Q, name="low")
    assert numbers(bounds_of(clip_node(13, low)))[0] == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("zero_point", "high", "implied"),
    [(0, 25.5, True), (0, 25.4, False), (1, 30.0, False), (0, None, True)],
)
def test_saturation_of_the_type_is_a_clip_of_its_own(zero_point, high, implied: bool) -> None:
    """With zero point 0 the least number is 0; the greatest is 25.5."""
    y = byte("y", Quantization((0.1,), (zero_point,)))
    given = {} if high is None else {"max": high}
    assert is_implied(clip_node(6, min=0.0, **given), y) is implied
    assert not is_implied(clip_node(6, min=0.0, **given), value("y", X))


def test_a_bound_of_a_run_is_not_implied() -> None:
    low = value("low", np.zeros((), np.float32))
    assert not is_implied(clip_node(11, low), byte("y"))


def test_a_polynomial_begins_with_its_constant():
    x = np.array([0, 1, 2, -3], np.float32)
    found = returned(lambda n, x: polynomial(n, x, (1.0, -2.0, 3.0)), x)
    assert found.tolist() == (1 - 2 * x + 3 * x**2).tolist()
