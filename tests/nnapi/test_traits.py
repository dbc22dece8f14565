"""Traits of the operations: they name operands that exist, and agree with what the kernels do."""

import numpy as np
import pytest

from ep_nnapi.nnapi.shapes import Tensor, infer
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    ADD,
    AVERAGE_POOL_2D,
    BY_NAME,
    CONV_2D,
    LOGISTIC,
    MAX_POOL_2D,
    OPERATIONS,
    RELU6,
    SOFTMAX,
)
from ep_nnapi.nnapi.traits import AxisUse


def params(row: OperationSpec) -> set[str]:
    return {p.name for form in row.input_params for p in form}


@pytest.mark.parametrize("row", OPERATIONS, ids=str)
def test_traits_name_operands_of_the_operation(row: OperationSpec):
    traits = row.traits
    assert {*traits.elementwise, *traits.per_axis} <= params(row)
    if traits.axis is not None:
        assert {"axis", "axes"} & params(row)
        assert (traits.axis is AxisUse.REDUCED) == ("keep_dims" in params(row))
    assert not (traits.keeps_quantization and traits.output_quantization)


@pytest.mark.parametrize("row", [r for r in OPERATIONS if r.traits.elementwise], ids=str)
def test_elementwise_operands_have_the_shape_that_numpy_broadcasts(row: OperationSpec):
    names = row.traits.elementwise
    shapes = [(2, 3, 4)] * len(names)
    if row.name != "SELECT" and len(names) > 1:  # NNAPI's SELECT does not broadcast
        shapes[1] = (3, 1)
    operands = {n: Tensor(s) for n, s in zip(names, shapes, strict=True)}
    assert infer(row, operands) == (np.broadcast_shapes(*shapes),)


@pytest.mark.parametrize(
    "row", [r for r in OPERATIONS if r.traits.axis is AxisUse.REDUCED], ids=str
)
@pytest.mark.parametrize("keep", [0, 1])
def test_reduced_axes_have_the_shape_that_numpy_reduces_to(row: OperationSpec, keep: int):
    x, axes = np.zeros((2, 3, 4)), np.array([2, 0])
    operands = {"input": Tensor(x.shape), "axes": Tensor.of(axes), "keep_dims": keep}
    assert infer(row, operands) == (x.sum(axis=(0, 2), keepdims=bool(keep)).shape,)


def test_only_the_relus_clamp():
    assert {r.name for r in OPERATIONS if r.traits.clamps} == {"RELU", "RELU1", "RELU6"}


def test_an_average_keeps_the_quantization_but_rounds():
    assert MAX_POOL_2D.traits.selects
    assert not AVERAGE_POOL_2D.traits.selects
    assert AVERAGE_POOL_2D.traits.keeps_quantization
    assert RELU6.traits.selects


def test_fixed_quantizations_cover_the_range_of_the_function():
    """256 steps from the least result on. Source: NDK, outputs of LOGISTIC, SOFTMAX, TANH."""
    ranges = {LOGISTIC: (0, 1), SOFTMAX: (0, 1), BY_NAME["TANH"]: (-1, 1)}
    for row, (least, greatest) in ranges.items():
        assert row.traits.output_quantization is not None
        scale, zero_point = row.traits.output_quantization
        assert -zero_point * scale == least
        assert (256 - zero_point) * scale == greatest


def test_operations_that_compute_state_their_own_quantization():
    for row in (ADD, CONV_2D):
        assert not row.traits.keeps_quantization
        assert row.traits.output_quantization is None
