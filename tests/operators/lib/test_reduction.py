"""Reductions and normalizations of any rank, against numpy in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_SUM
from ep_nnapi.operators.lib.reduction import Norm, normalize, reduce, reduced, scaled, standardized
from tests.cases import each
from tests.operators.lib import emitting

ROWS = {
    MEAN: np.mean,
    REDUCE_SUM: np.sum,
    REDUCE_MAX: np.max,
    REDUCE_MIN: np.min,
    REDUCE_PROD: np.prod,
}
AXES = [
    ((5,), (0,)),
    ((2, 3, 4), ()),
    ((2, 3, 4), (1,)),
    ((2, 3, 4, 2), (0, 2, 3)),
    ((2, 3, 4, 2), (0, 1, 2, 3)),
    ((2, 1, 3, 1, 4), (2,)),  # axes of size 1 do not count
    ((2, 2, 3, 2, 2), (0, 2, 4)),
    ((2, 2, 2, 2, 2, 2), (0, 2, 4)),  # six groups of axes: reduced one by one
    ((2, 2, 2, 2, 2, 2), (0, 1, 2, 3, 4, 5)),
    ((2, 2, 2, 2, 2, 2, 2), (1, 3, 5)),
]


@each("keep", [False, True])
@each(("shape", "axes"), AXES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_reductions_match(row, shape: tuple[int, ...], axes: tuple[int, ...], keep: bool) -> None:
    x = emitting.floats(*shape)
    exact = ROWS[row](x.astype(np.float64), axis=axes, keepdims=keep) if axes else x
    exact = np.asarray(exact, np.float32)
    found = emitting.written(lambda n, x, y: reduce(n, row, x, axes, y, keep=keep), x, like=exact)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)  # float32, in another order


def names(row, shape: tuple[int, ...], axes: tuple[int, ...]) -> list[str]:
    x = emitting.value("x", np.zeros(shape, np.float32))
    y = emitting.value("y", x_reduced(shape, axes))
    n = emitting.node([x], [y])
    return emitting.emitted(lambda n: reduce(n, row, x, axes, y, keep=True), n).names


def x_reduced(shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    return np.zeros([1 if i in axes else d for i, d in enumerate(shape)], np.float32)


def test_one_operation_while_four_groups_of_axes_are_left() -> None:
    assert names(MEAN, (2, 3, 4, 5), (1, 3)) == ["MEAN"]
    assert names(MEAN, (2, 2, 3, 2, 2), (2,)) == ["RESHAPE", "MEAN", "RESHAPE"]
    assert names(MEAN, (2, 2, 2, 2, 2), (0, 2, 4)).count("MEAN") == 2
    assert names(MEAN, (2, 3), ()) == ["RESHAPE"]


def test_reduced_axes_stay() -> None:
    x = emitting.floats(2, 3, 4)
    found = emitting.returned(lambda n, x: reduced(n, MEAN, x, (1,)), x)
    np.testing.assert_allclose(found, x.mean(axis=1, keepdims=True), atol=1e-6)


EPSILON = 1e-3


def root_mean_square(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return np.sqrt((x * x).mean(axis=axes, keepdims=True) + EPSILON)


@pytest.mark.parametrize("axes", [(1,), (0, 2), (0, 1, 2)])
def test_scaled_and_standardized(axes: tuple[int, ...]) -> None:
    x = emitting.floats(3, 4, 5)
    exact = x.astype(np.float64)
    found = emitting.returned(lambda n, x: value_of(scaled(n, x, axes, EPSILON)), x)
    np.testing.assert_allclose(found, exact / root_mean_square(exact, axes), atol=1e-5)
    centred = exact - exact.mean(axis=axes, keepdims=True)
    found = emitting.returned(lambda n, x: value_of(standardized(n, x, axes, EPSILON)), x)
    np.testing.assert_allclose(found, centred / root_mean_square(centred, axes), atol=1e-5)


def value_of(step):
    return (yield from step).value


def test_mean_and_factor_are_returned_too() -> None:
    x = emitting.floats(3, 4)
    mean = emitting.returned(lambda n, x: part_of(standardized(n, x, (1,), EPSILON), "mean"), x)
    np.testing.assert_allclose(mean, x.mean(axis=1, keepdims=True), atol=1e-6)
    inverse = emitting.returned(lambda n, x: part_of(scaled(n, x, (1,), EPSILON), "inverse"), x)
    np.testing.assert_allclose(inverse, 1 / root_mean_square(x, (1,)), rtol=1e-5)
    x_value = emitting.value("x", x)
    assert (
        emitting.emitted(scaled, emitting.node([x_value]), x_value, (1,), EPSILON).returned.mean
        is None
    )


def part_of(step, name: str):
    return getattr((yield from step), name)


PARAMETERS = [
    ((3, 4), 1, (4,), (4,)),
    ((3, 4), 1, (4,), None),
    ((2, 3, 4), 1, (3, 4), (4,)),
    ((2, 3, 4), 2, (1,), (2, 1, 4)),  # any shape that broadcasts
    ((2, 2, 3, 2, 4), 3, (2, 4), (4,)),  # rank 5: two axes
    ((2, 2, 3, 2, 4), 4, (4,), None),
]


@pytest.mark.parametrize(("shape", "axis", "scale", "shift"), PARAMETERS)
@pytest.mark.parametrize("known", [False, True])
def test_normalizations_match(shape, axis: int, scale, shift, known: bool) -> None:
    x, factor = emitting.floats(*shape), emitting.floats(*scale, low=0.5, high=2)
    added = None if shift is None else emitting.floats(*shift)
    axes = tuple(range(axis, len(shape)))
    exact = x.astype(np.float64)
    exact = exact - exact.mean(axis=axes, keepdims=True)
    exact = exact / root_mean_square(exact, axes) * factor + (0 if added is None else added)
    params = [p for p in (factor, added) if p is not None]
    if known:
        held = [emitting.constant(p, name=f"p{i}") for i, p in enumerate(params)]
        found = emitting.written(
            lambda n, x, y: written_norm(n, x, axis, held, y), x, like=exact.astype(np.float32)
        )
    else:
        found = emitting.written(
            lambda n, x, *rest: written_norm(n, x, axis, rest[:-1], rest[-1]),
            x,
            *params,
            like=exact.astype(np.float32),
        )
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # RSQRT in float32


def written_norm(n, x, axis: int, params, y):
    yield from normalize(n, x, Norm(standardized, axis, EPSILON, *params), y)


REFUSED = {
    "rank": ((3, 4), 1, (1, 3, 4), "w has rank 3, for x of rank 2 normalized from axis 1 on"),
    "rank beyond 4": ((2, 2, 2, 2, 4), 4, (2, 4), "w has rank 2, .* it has up to 1; reshape it"),
    "size": ((3, 4), 1, (3,), r"w has shape \[3\], x \[3, 4\]"),
}


@pytest.mark.parametrize(("shape", "axis", "scale", "says"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_do_not_fit(shape, axis: int, scale, says: str) -> None:
    def refused() -> emitting.Emitted:
        x = emitting.value("x", np.zeros(shape, np.float32))
        y = emitting.value("y", np.zeros(shape, np.float32))
        norm = Norm(scaled, axis, EPSILON, emitting.constant(np.ones(scale, np.float32)))
        return emitting.emitted(normalize, emitting.node([x], [y]), x, norm, y)

    with pytest.raises(Reject, match=says) as caught:
        refused()
    assert caught.value.reason is Reason.SHAPE
