"""Versions of operators: the lowest ones that have the types and options in use."""

import numpy as np
import pytest

from ep_nnapi.litert.flat_operator import FlatTensor, Parameters, Signature, version

F, I32, U8, S8, BOOL = (np.dtype(t) for t in ("f4", "i4", "u1", "i1", "?"))


def tensor(dtype: np.dtype, *shape: int, scales: tuple[float, ...] = ()) -> FlatTensor:
    return FlatTensor(dtype, shape or (1, 4, 4, 2), Parameters(scales) if scales else None)


def of(operator: str, *tensors: FlatTensor, **options: object) -> int:
    return version(Signature(operator, tensors, len(tensors) - 1, options))


@pytest.mark.parametrize("operator", ["SOFTMAX", "MEAN", "PAD", "CONCATENATION", "AVERAGE_POOL_2D"])
def test_int8_came_with_version_2(operator: str) -> None:
    assert [of(operator, tensor(t), tensor(t)) for t in (F, U8, S8)] == [1, 1, 2]


@pytest.mark.parametrize(
    ("operator", "dtype", "wanted"),
    [
        ("ABS", F, 1),
        ("ABS", I32, 5),
        ("RELU", U8, 2),
        ("TILE", S8, 3),
        ("REVERSE_V2", S8, 3),
        ("TRANSPOSE", BOOL, 3),
        ("GATHER", BOOL, 3),
        ("FLOOR", F, 1),
    ],
)
def test_types_with_versions_of_their_own(operator: str, dtype: np.dtype, wanted: int) -> None:
    assert of(operator, tensor(dtype), tensor(dtype)) == wanted


def test_splits_take_the_tensor_second() -> None:
    axis = tensor(I32, 1)
    assert [of("SPLIT", axis, tensor(t), tensor(t)) for t in (F, S8, I32)] == [1, 2, 3]


def test_convolutions() -> None:
    image, wide, narrow = tensor(F), tensor(F, 4, 3, 3, 2), tensor(F, 4, 3, 3, 1)
    assert of("CONV_2D", image, wide, image) == 1
    assert of("CONV_2D", image, narrow, image) == 6  # groups
    coded = tensor(S8), tensor(S8, 4, 3, 3, 2)
    assert of("CONV_2D", *coded, tensor(S8)) == 3


@pytest.mark.parametrize(("dilations", "wanted"), [((1, 1), 1), ((2, 1), 2), ((1, 2), 2)])
def test_dilated_depthwise_convolutions(dilations: tuple[int, int], wanted: int) -> None:
    options = dict(zip(("dilationWFactor", "dilationHFactor"), dilations, strict=True))
    assert of("DEPTHWISE_CONV_2D", tensor(F), tensor(F), tensor(F), **options) == wanted


@pytest.mark.parametrize(("scale", "wanted"), [(0.5, 1), (0.25, 3), (0.125, 3)])
def test_products_that_are_amplified(scale: float, wanted: int) -> None:
    """0.5 * 0.5 / scale: below 1, 1 and above."""
    half = tensor(U8, scales=(0.5,))
    assert of("MUL", half, half, tensor(U8, scales=(scale,))) == wanted


def test_scales_per_channel() -> None:
    assert of("DEQUANTIZE", tensor(S8, scales=(0.5,)), tensor(F)) == 2
    assert of("DEQUANTIZE", tensor(S8, scales=(0.5, 0.25)), tensor(F)) == 5


@pytest.mark.parametrize(("rank", "wanted"), [(4, 1), (5, 4)])
def test_ranks(rank: int, wanted: int) -> None:
    assert of("TRANSPOSE", tensor(F, *(1,) * rank), tensor(F, *(1,) * rank)) == wanted


@pytest.mark.parametrize(("half", "aligned", "wanted"), [(0, 0, 1), (1, 0, 3), (0, 1, 3)])
def test_pixel_centers(half: bool, aligned: bool, wanted: int) -> None:
    options = {"halfPixelCenters": bool(half), "alignCorners": bool(aligned)}
    assert of("RESIZE_NEAREST_NEIGHBOR", tensor(F), tensor(F), **options) == wanted
