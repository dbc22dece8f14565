"""Limits on the scratch memory of operations, estimated from their operands.

Most operations need little memory besides inputs and outputs. The scalars of those in the table
can require much more, such as a padded copy of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.shapes.convolution import AxisGeometry, WindowGeometry, nhwc_dims
from ep_nnapi.nnapi.shapes.operands import Operands, Scalar, ShapeError, Tensor, UnknownOperand
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import at_present

Elements: TypeAlias = Callable[..., int]

_MULTIPLE = 16
"""Limit of scratch elements, as a multiple of the operands' elements."""
_ALWAYS = 1 << 16
"""Scratch elements that are always allowed, for operations with small operands."""


def require_scratch(
    operation: OperationSpec, operands: Operands, elements: int, times: int = 1
) -> None:
    """Raises Reject(SIZE) if the scratch memory is out of proportion to the operands.

    operands   by name, as for shape functions
    elements   number of elements of all inputs and outputs
    times      factor on the limit
    """
    try:
        declared = SCRATCH[operation]
        wanted = declared(**{k: v for k, v in operands.items() if v is not None})
    except (UnknownOperand, ShapeError):
        return  # unknown before the run, or an error that shape inference reports
    most = times * (_MULTIPLE * elements + _ALWAYS)
    if at_present(wanted) > at_present(most):  # relative, so at the sizes of now
        raise Reject(
            Reason.SIZE,
            f"{operation.name} needs scratch memory of {wanted} elements for operands of "
            f"{elements}; at most {most} are allowed",
        )


def _convolution(input: Tensor, filter: Tensor, **rest: Scalar | Tensor) -> int:
    return _padded(input, (filter.size(1), filter.size(2)), rest)


def _pool(input: Tensor, filter_height: int, filter_width: int, **rest: Scalar | Tensor) -> int:
    return _padded(input, (filter_height, filter_width), rest)


def _padded(input: Tensor, taps: tuple[int, int], rest: Mapping[str, Scalar | Tensor]) -> int:
    """Elements of one padded image."""
    window = _window(rest)
    _, height, width, channels = _known(input, window.nchw)
    high, wide = _stored(window.height, height, taps[0]), _stored(window.width, width, taps[1])
    return high * wide * channels


def _stored(axis: AxisGeometry, size: int, taps: int) -> int:
    return size + sum(axis.pads(size, taps))


def _transposed(input: Tensor, filter: Tensor, **rest: Scalar | Tensor) -> int:
    """Elements of one output image before its padding is cropped."""
    window = _window(rest)
    _, height, width, _ = _known(input, window.nchw)
    high = (height - 1) * window.height.stride + filter.size(1)
    return high * ((width - 1) * window.width.stride + filter.size(2)) * filter.size(0)


def _regions(
    input: Tensor,
    output_height: int,
    output_width: int,
    height_sampling_points: int,
    width_sampling_points: int,
    layout: bool,
    **rest: Scalar | Tensor,
) -> int:
    """Interpolation weights of one region: sampling points times pixels, for each axis."""
    _, height, width, _ = _known(input, layout)
    rows = output_height * (height_sampling_points or height) * height
    return rows + output_width * (width_sampling_points or width) * width


def _window(rest: Mapping[str, Scalar | Tensor]) -> WindowGeometry:
    scalars = {k: v for k, v in rest.items() if not isinstance(v, Tensor) and k != "activation"}
    return WindowGeometry.of(**scalars)


def _known(image: Tensor, nchw: bool) -> tuple[int, ...]:
    """An image's batch, height, width and channels; raises UnknownOperand."""
    dims = nhwc_dims(image, nchw)
    sizes = tuple([size for size in dims if size is not None])
    if len(sizes) < len(dims):
        raise UnknownOperand
    return sizes


SCRATCH: Mapping[OperationSpec, Elements] = {
    spec.CONV_2D: _convolution,
    spec.DEPTHWISE_CONV_2D: _convolution,
    spec.GROUPED_CONV_2D: _convolution,
    spec.TRANSPOSE_CONV_2D: _transposed,
    spec.AVERAGE_POOL_2D: _pool,
    spec.L2_POOL_2D: _pool,
    spec.MAX_POOL_2D: _pool,
    spec.ROI_ALIGN: _regions,
}
