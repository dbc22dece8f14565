"""Clip and its relatives, and polynomials within their documented bounds, against numpy."""

from math import inf

import numpy as np
import pytest
from scipy import special

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.activation import (
    arctan,
    bounds_of,
    clip,
    erf,
    gelu,
    half_angle,
    is_implied,
    polynomial,
    scaled_hard_sigmoid,
    swish,
    tanh_gelu,
    write_leaky_relu,
    write_prelu,
)
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import Target
from tests.operators.lib.emitting import (
    constant,
    emitted,
    floats,
    node,
    ran,
    returned,
    value,
    written,
)

X = floats(3, 4, low=-8, high=8)
LARGEST = float(np.finfo(np.float32).max)


def bound(number: float | None, dtype: type = np.float32) -> Constant | None:
    return None if number is None else Constant.of(np.array([number], dtype))


def names(low: float | None, high: float | None, dtype: type = np.float32) -> list[str]:
    x, y = (value(name, X.astype(dtype)) for name in "xy")
    return emitted(clip, node([x], [y]), x, (bound(low, dtype), bound(high, dtype)), y).names


BOUNDS = {
    (0.0, None): ["RELU"],
    (0.0, 6.0): ["RELU6"],
    (-1.0, 1.0): ["RELU1"],
    (0.0, inf): ["RELU"],
    (0.0, LARGEST): ["RELU"],  # as exporters write "no limit"
    (-LARGEST, None): ["RESHAPE"],
    (None, None): ["RESHAPE"],
    (-2.0, None): ["MAXIMUM"],
    (None, 3.0): ["MINIMUM"],
    (-2.0, 3.0): ["MAXIMUM", "MINIMUM"],
    (3.0, -2.0): ["MAXIMUM", "MINIMUM"],  # the upper bound wins, as in ONNX
}


@pytest.mark.parametrize(("bounds", "operations"), BOUNDS.items())
def test_constant_bounds(bounds: tuple[float | None, float | None], operations: list[str]) -> None:
    assert names(*bounds) == operations
    low, high = (none if b is None else b for b, none in zip(bounds, (-inf, inf), strict=True))
    exact = np.minimum(np.maximum(X, np.float32(low)), np.float32(high))
    given = tuple(bound(b) for b in bounds)
    found = written(lambda n, x, y: clip(n, x, given, y), X, like=X)
    np.testing.assert_array_equal(found, exact)


def test_integers_have_no_relu() -> None:
    assert names(0, None, np.int32) == ["MAXIMUM"]
    assert names(0, 6, np.int32) == ["MAXIMUM", "MINIMUM"]


def test_bounds_of_a_run() -> None:
    low, high = np.float32(-1.5), np.float32(2.5)
    found = written(
        lambda n, x, a, b, y: clip(n, x, (a, b), y), X, low.reshape(1), high.reshape(1), like=X
    )
    np.testing.assert_array_equal(found, np.clip(X, low, high))


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


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.5), (1 / 6, 0.5), (2.0, -1.0)])
def test_six_times_the_hard_sigmoid(alpha: float, beta: float) -> None:
    exact = np.clip(6 * (alpha * X.astype(np.float64) + beta), 0, 6)
    found = returned(lambda n, x: scaled_hard_sigmoid(n, x, alpha, beta), X)
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6)  # alpha rounded to float32


@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("shape", [(1,), (4,), (3, 1), (3, 4)])
def test_prelu_matches(shape: tuple[int, ...], level: int) -> None:
    slope = floats(*shape)
    exact = np.where(X < 0, X * slope, X)
    found = written(write_prelu, X, slope, like=X, level=level)
    np.testing.assert_array_equal(found, exact)


def test_prelu_is_one_operation_where_the_level_has_it() -> None:
    x, slope, y = (value(name, X) for name in ("x", "slope", "y"))
    for level, operation in ((2, "ADD"), (3, "PRELU")):
        assert emitted(write_prelu, node(level=level), x, slope, y).names[-1] == operation


def test_leaky_relu_matches() -> None:
    found = written(lambda n, x, y: write_leaky_relu(n, x, 0.1, y), X, like=X)
    np.testing.assert_array_equal(found, np.where(X < 0, X * np.float32(0.1), X))
    x, y = byte("x"), byte("y")
    (call,) = emitted(lambda n: write_leaky_relu(n, x, 0.1, y), node([x], [y])).calls
    assert call.spec.name == "PRELU"


def points(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 20_001).astype(np.float32)


def test_erf_is_off_by_2e_7():
    x = points(-6, 6)
    assert np.abs(written(erf, x, like=x) - special.erf(x.astype(np.float64))).max() <= 2e-7


def test_gelu_is_off_by_4e_7_within_4_and_2e_7_x_beyond():
    x = points(-9, 9)
    exact = x * special.ndtr(x.astype(np.float64))
    off, inside = np.abs(written(gelu, x, like=x) - exact), np.abs(x) < 4
    rounded = 6e-8 * np.abs(exact)  # the result's own rounding to float32
    assert (off[inside] <= 4e-7 + rounded[inside]).all()
    assert (off[~inside] <= 2e-7 * np.abs(x[~inside]) + rounded[~inside]).all()


def test_arctan_is_off_by_2e_7():
    x = points(-1, 1)
    assert np.abs(returned(arctan, x) - np.arctan(x.astype(np.float64))).max() <= 2e-7


def test_half_angles_match():
    x = points(-3, 3)
    exact = np.tan(np.arctan(x.astype(np.float64)) / 2)
    assert np.allclose(returned(half_angle, x), exact, rtol=1e-6, atol=0)  # five roundings


@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swish_matches(alpha: float):
    x = points(-9, 9)
    found = written(lambda n, x, y: swish(n, x, y, alpha), x, like=x)
    assert np.allclose(found, x * special.expit(alpha * x.astype(np.float64)), rtol=1e-5, atol=1e-6)


def test_gelu_by_tanh_matches():
    x = points(-5, 5)
    d = x.astype(np.float64)
    exact = d * (1 + np.tanh(np.sqrt(2 / np.pi) * (d + 0.044715 * d**3))) / 2
    assert np.allclose(written(tanh_gelu, x, like=x), exact, rtol=0, atol=2e-6)  # float32 of 5


def test_a_polynomial_begins_with_its_constant():
    x = np.array([0, 1, 2, -3], np.float32)
    found = returned(lambda n, x: polynomial(n, x, (1.0, -2.0, 3.0)), x)
    assert found.tolist() == (1 - 2 * x + 3 * x**2).tolist()
