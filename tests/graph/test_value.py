"""Shapes, element types and lazy constants of values."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.errors import FIX_ADVICE
from ep_nnapi.graph.value import Constant, DType, Quantization, Recipe, Value, operand_shape
from ep_nnapi.nnapi.errors import Reason, Reject


@pytest.mark.parametrize(
    ("shape", "operand"),
    [((), (1,)), ((3,), (3,)), ((1, 2, 3, 4), (1, 2, 3, 4)), ((1, 2, 3, 4, 5), (120,))],
)
def test_scalars_and_ranks_above_four_have_another_operand_shape(shape, operand) -> None:
    assert operand_shape(shape) == operand


def test_a_static_shape_is_read() -> None:
    value = Value("x", DType.FLOAT, (2, 3))
    assert (value.rank, value.shape, value.size) == (2, (2, 3), 6)


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (Value("x", DType.FLOAT), f"x has an unknown rank; .*{FIX_ADVICE}$"),
        (Value("x", DType.FLOAT, (2, "N")), "x dimension 1 is 'N'"),
        (Value("x", DType.FLOAT, (None, 2)), "x dimension 0 is unknown"),
        (
            Value("x", DType.FLOAT, (None, 2), shape_producer="nms"),
            "x has a data-dependent shape, produced by nms",
        ),
    ],
)
def test_an_unknown_shape_is_rejected(value: Value, detail: str) -> None:
    with pytest.raises(Reject, match=detail) as rejected:
        _ = value.shape
    assert rejected.value.reason is Reason.SHAPE


def test_the_rank_is_known_without_the_sizes() -> None:
    assert Value("x", DType.FLOAT, (None, "N")).rank == 2


@pytest.mark.parametrize("dtype", [d for d in DType if d.readable])
def test_numpy_types_convert_both_ways(dtype: DType) -> None:
    assert DType.of(dtype.numpy) is dtype


def test_a_type_that_numpy_lacks_is_rejected() -> None:
    assert not DType.BFLOAT16.readable
    with pytest.raises(Reject, match="BFLOAT16 has no numpy type") as rejected:
        _ = DType.BFLOAT16.numpy
    assert rejected.value.reason is Reason.DTYPE


def test_transformations_of_a_constant_are_lazy() -> None:
    loads: list[int] = []
    array = np.arange(6, dtype=np.int64).reshape(2, 3)

    def load() -> np.ndarray:
        loads.append(1)
        return array

    constant = Constant((2, 3), DType.INT64, load)
    changed = constant.transposed((1, 0)).reshaped((6,)).cast(DType.INT32)
    assert (changed.shape, changed.dtype, changed.rank) == ((6,), DType.INT32, 1)
    assert not loads
    np.testing.assert_array_equal(changed.array, array.T.reshape(6).astype(np.int32))
    assert loads == [1]


@pytest.mark.parametrize("owned", [False, True])
def test_what_is_made_of_a_constant_lives_as_long_as_it(owned: bool) -> None:
    given = replace(Constant.of(np.ones((2, 3), np.float32)), owned=owned)
    made = (given.transposed((1, 0)), given.reshaped((6,)), given.cast(DType.INT32))
    assert [constant.owned for constant in made] == [owned] * 3


def test_a_constant_is_made_of_others_when_it_is_read() -> None:
    read = []

    def load() -> np.ndarray:
        read.append(1)
        return np.array([1, 2], np.uint8)

    source = Constant((2,), DType.UINT8, load)
    recipe = Recipe((source,), lambda given: np.outer(given[0], given[0]).astype(np.float32))
    made = Constant.made((2, 2), DType.FLOAT, recipe).transposed((1, 0)).reshaped((4,))
    assert (made.shape, made.recipe and made.recipe.sources, read) == ((4,), (source,), [])
    assert made.array.tolist() == [1, 2, 2, 4]


def test_quantization_is_per_tensor_or_per_axis() -> None:
    assert Quantization((0.5,), (0,)).per_tensor
    assert not Quantization((0.5, 0.25), (0, 0), axis=0).per_tensor
