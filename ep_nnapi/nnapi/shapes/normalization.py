"""Shape inference for normalizations: the output has the input's shape."""

from __future__ import annotations

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.elementwise import same
from ep_nnapi.nnapi.shapes.operands import Dims, Table, Tensor, axis_of


def along(input: Tensor, axis: int = -1) -> Dims:
    """The input's dimensions; raises ShapeError if `axis` is out of range."""
    axis_of(axis, input.rank)
    return input.dims


SHAPES: Table = {
    **dict.fromkeys(
        (
            spec.L2_NORMALIZATION,
            spec.LOCAL_RESPONSE_NORMALIZATION,
            spec.LOG_SOFTMAX,
            spec.SOFTMAX,
        ),
        along,
    ),
    spec.INSTANCE_NORMALIZATION: same,
}
