"""Positions, rounding and weights of resized axes, against ONNX's formulas in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.resize_sampling import (
    COORDINATE_SCHEMES,
    NAMES,
    TRANSFORMS,
    CoordinateScheme,
    Resized,
    Tap,
    cubic,
    enumerated_text,
    is_near_tie,
    linear,
    nearest,
    nonzero_taps,
    same_positions,
)
from tests.cases import each
from tests.operators.lib.emitting import node

AXES = [
    Resized(4, 8, 2.0),
    Resized(5, 12, 2.5),
    Resized(8, 3, 0.375),
    Resized(7, 4, 0.6),  # 4.2, rounded
    Resized(3, 1, 1 / 3),
    Resized(1, 4, 4.0),
    Resized(6, 5, 5 / 6, 0.25, 0.75),
]

FORMULAS = {
    "asymmetric": lambda x, a: x / a.scale,
    "half_pixel": lambda x, a: (x + 0.5) / a.scale - 0.5,
    "pytorch_half_pixel": lambda x, a: (x + 0.5) / a.scale - 0.5 if a.out > 1 else 0 * x,
    "half_pixel_symmetric": lambda x, a: (
        a.size / 2 * (1 - a.out / (a.scale * a.size)) + (x + 0.5) / a.scale - 0.5
    ),
    "tf_half_pixel_for_nn": lambda x, a: (x + 0.5) / a.scale,
    "align_corners": lambda x, a: x * (a.size - 1) / (a.out - 1) if a.out > 1 else 0 * x,
    "tf_crop_and_resize": lambda x, a: (
        a.start * (a.size - 1) + x * (a.end - a.start) * (a.size - 1) / (a.out - 1)
        if a.out > 1
        else 0.5 * (a.start + a.end) * (a.size - 1) + 0 * x
    ),
}
"""ONNX's definitions, Resize-19."""


def test_every_mode_has_its_formula() -> None:
    assert FORMULAS.keys() == TRANSFORMS.keys()


@each("axis", AXES)
@pytest.mark.parametrize("mode", TRANSFORMS)
def test_positions_match(mode: str, axis: Resized) -> None:
    exact = FORMULAS[mode](np.arange(axis.out, dtype=np.float64), axis)
    found = TRANSFORMS[mode](axis)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6)  # a few roundings of float32


def test_properties_of_an_axis() -> None:
    assert Resized(4, 4, 1.0).unchanged
    assert not Resized(4, 4, 1.1).unchanged
    assert Resized(4, 6, 1.5).exact
    assert not Resized(7, 4, 0.6).exact
    assert Resized(4, 3, 0.75).indexes.tolist() == [0, 1, 2]


POSITIONS = np.float32([-0.5, -0.2, 0.5, 1.2, 1.5, 1.7, 2.5, 3.6])


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("round_prefer_floor", [0, 0, 0, 1, 1, 2, 2, 3]),
        ("round_prefer_ceil", [0, 0, 1, 1, 2, 2, 3, 3]),
        ("floor", [0, 0, 0, 1, 1, 1, 2, 3]),
        ("ceil", [0, 0, 1, 2, 2, 2, 3, 3]),
    ],
)
def test_nearest_elements_of_four(rounding: str, expected: list[int]) -> None:
    """Positions outside are those of the first and the last element."""
    tap = nearest(Resized(4, 8, 2.0), POSITIONS, rounding)
    assert tap.indexes.tolist() == expected
    assert tap.weights is None


def test_without_a_rounding_it_follows_the_scale() -> None:
    for scale, rounding in ((0.5, "ceil"), (1.0, "floor"), (2.0, "floor")):
        axis = Resized(4, 8, scale)
        simple = nearest(axis, POSITIONS, "simple").indexes
        np.testing.assert_array_equal(simple, nearest(axis, POSITIONS, rounding).indexes)


def test_ties_within_a_rounding_error_are_ties() -> None:
    """As in ONNX Runtime: 1e-6 on either side."""
    at = np.float32([1.5 - 5e-7, 1.5 + 5e-7, 1.5 - 3e-6, 1.5 + 3e-6])
    axis = Resized(4, 4, 1.0)
    assert nearest(axis, at, "round_prefer_floor").indexes.tolist() == [1, 1, 1, 2]
    assert nearest(axis, at, "round_prefer_ceil").indexes.tolist() == [2, 2, 1, 2]


@pytest.mark.parametrize(
    ("at", "rounding", "near"),
    [
        (1.5, "round_prefer_floor", True),
        (1.25, "round_prefer_floor", False),
        (2.0, "floor", True),
        (1.5, "floor", False),
        (2.0 + 1e-3, "floor", False),
    ],
)
def test_positions_where_rounding_errors_decide(at: float, rounding: str, near: bool) -> None:
    assert is_near_tie(Resized(4, 4, 1.0), np.float32([at]), rounding) is near


def interpolated(taps: list[Tap], x: np.ndarray) -> np.ndarray:
    return sum(x[t.indexes] * t.weights for t in taps)


def test_linear_interpolation() -> None:
    x, at = np.float32([1, 4, 2, 8]), np.linspace(-1, 4, 21, dtype=np.float32)
    found = interpolated(linear(Resized(4, 21, 5.25), at), x)
    np.testing.assert_allclose(found, np.interp(at, range(4), x), atol=1e-6)


def keys(distance: float, a: float) -> float:
    """The weight of an element at a distance. Source: Keys 1981, equation 4."""
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0


@pytest.mark.parametrize("a", [-0.75, -0.5])
@pytest.mark.parametrize("exclude_outside", [False, True])
def test_cubic_weights_match(a: float, exclude_outside: bool) -> None:
    at = np.linspace(0, 4, 17, dtype=np.float32)
    taps = cubic(Resized(5, 17, 3.4), at, a, exclude_outside=exclude_outside)
    weights, indexes = np.array([t.weights for t in taps]), np.array([t.indexes for t in taps])
    for column, position in enumerate(at):
        near = int(np.floor(position)) + np.arange(-1, 3)
        exact = np.array([keys(float(position) - i, a) for i in near])
        if exclude_outside:
            exact = np.where((near < 0) | (near > 4), 0, exact)
            exact = exact / exact.sum()
        np.testing.assert_allclose(weights[:, column], exact, atol=1e-6)
        assert indexes[:, column].tolist() == np.clip(near, 0, 4).tolist()


def test_taps_without_weight_are_dropped() -> None:
    axis = Resized(4, 4, 1.0)
    whole = nonzero_taps(linear(axis, axis.indexes))
    assert [t.weights for t in whole] == [None]  # each element is itself
    assert whole[0].indexes.tolist() == [0, 1, 2, 3]
    between = linear(axis, axis.indexes + np.float32(0.25))
    assert list(nonzero_taps(between)) == list(between)


@pytest.mark.parametrize("attribute", NAMES)
def test_attributes_have_the_values_of_onnx(attribute: str) -> None:
    for name in NAMES[attribute]:
        assert enumerated_text(node(**{attribute: name}), attribute, "x") == name
    first = next(iter(NAMES[attribute]))
    assert enumerated_text(node(), attribute, first) == first
    with pytest.raises(Reject, match=f"{attribute} is 'other'; use .*{first}") as caught:
        enumerated_text(node(**{attribute: "other"}), attribute, first)
    assert caught.value.reason is Reason.ATTRIBUTE


SAME_AS = {
    CoordinateScheme(): "asymmetric",
    CoordinateScheme(half_pixel_centers=True): "half_pixel",
    CoordinateScheme(align_corners=True): "align_corners",
}


@pytest.mark.parametrize("scheme", COORDINATE_SCHEMES)
def test_nnapis_schemes_are_onnxs_where_the_scale_is_exact(scheme: CoordinateScheme) -> None:
    for axis in (Resized(4, 8, 2.0), Resized(8, 4, 0.5), Resized(3, 9, 3.0)):
        onnx = TRANSFORMS[SAME_AS[scheme]](axis)
        assert same_positions(axis, scheme.positions(axis), onnx)
        others = [s for s in COORDINATE_SCHEMES if s != scheme]
        assert not any(same_positions(axis, s.positions(axis), onnx) for s in others)


def test_nnapis_nearest_elements() -> None:
    """Corners aligned round to the nearest element, the other schemes to the one below."""
    axis = Resized(4, 6, 1.5)
    assert CoordinateScheme().nearest(axis).tolist() == [0, 0, 1, 2, 2, 3]
    assert CoordinateScheme(half_pixel_centers=True).nearest(axis).tolist() == [0, 1, 1, 2, 3, 3]
    assert CoordinateScheme(align_corners=True).nearest(axis).tolist() == [0, 1, 1, 2, 2, 3]


def test_positions_outside_the_image_are_the_same() -> None:
    axis = Resized(4, 2, 0.5)
    first, second = np.float32([-1, 3]), np.float32([-0.5, 7])
    assert same_positions(axis, first, second)
    assert not same_positions(axis, first, np.float32([-1, 2.99]))
