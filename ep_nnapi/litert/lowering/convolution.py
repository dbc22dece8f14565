"""Convolutions and pooling; of paddings LiteRT has SAME and VALID only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ep_nnapi.litert.flat_operator import OptionValue, Parameters
from ep_nnapi.litert.flat_sizes import fixed
from ep_nnapi.litert.operation import DATA, FlatOp, is_signed, through_float
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.shapes.convolution import WindowGeometry
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import row
from ep_nnapi.ort_devices.scope import is_coded

SAME, VALID = 0, 1
"""Padding schemes. Source: LiteRT's schema, Padding."""


def pads(
    op: FlatOp, window: WindowGeometry, taps: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Padding before and after the image's rows, and its columns."""
    _, high, wide, _ = op.image_shape("input")
    return window.height.pads(high, taps[0]), window.width.pads(wide, taps[1])


def scheme(op: FlatOp, window: WindowGeometry, taps: tuple[int, int]) -> int | None:
    """SAME or VALID if that is the window's padding, else None."""
    if window.height.scheme is not None:
        return SAME if window.height.scheme is PaddingCode.SAME else VALID
    found = pads(op, window, taps)
    if found == ((0, 0), (0, 0)):
        return VALID
    same = WindowGeometry(
        replace(window.height, scheme=PaddingCode.SAME),
        replace(window.width, scheme=PaddingCode.SAME),
        window.nchw,
    )
    return SAME if found == pads(op, same, taps) and _keeps_extent(op, window, same, taps) else None


def _keeps_extent(
    op: FlatOp, window: WindowGeometry, same: WindowGeometry, taps: tuple[int, int]
) -> bool:
    """True if both paddings give an output of the same size."""
    _, high, wide, _ = op.image_shape("input")
    ends = ((window.height, same.height, high, taps[0]), (window.width, same.width, wide, taps[1]))
    return all(a.extent(size, t) == b.extent(size, t) for a, b, size, t in ends)


def padded_image(
    op: FlatOp,
    window: WindowGeometry,
    taps: tuple[int, int],
    *,
    signed: bool,
    fill: float | None = None,
) -> tuple[int, int]:
    """The input image in NHWC and the padding scheme; other padding becomes an operator.

    fill   stored number to pad with; None: that of zero
    """
    image = op.image("input", signed=signed)
    found = scheme(op, window, taps)
    if found is not None:
        return image, found
    return pad(op, image, [(0, 0), *pads(op, window, taps), (0, 0)], fill), VALID


def pad(op: FlatOp, value: int, pairs: Sequence[tuple[int, int]], fill: float | None = None) -> int:
    """Add an operator that pads."""
    given = op.graph.tensors[value]
    sizes = tuple(
        size + before + after for size, (before, after) in zip(given.shape, pairs, strict=True)
    )
    result = replace(given, shape=sizes)
    paddings = op.graph.ints([size for pair in pairs for size in pair], (len(pairs), 2))
    if fill is None:
        return op.computed("PAD", [value, paddings], result)
    return op.computed("PADV2", [value, paddings, filler(op, value, fill)], result)


def filler(op: FlatOp, value: int, fill: float) -> int:
    """A constant to pad a tensor with, of its type and quantization."""
    given = replace(op.graph.tensors[value], shape=(1,))
    array = np.array([fill], given.dtype)
    return op.graph.constant(given, (array.tobytes(),), lambda: array)


def weights_are_signed(op: FlatOp, name: str) -> bool:
    """True if the int8 kernels compute the operation, False for the uint8 ones.

    The int8 kernels take scales per channel, and zero point 0 only. They may take no -128, because
    some of them add two products of 8-bit numbers in 16 bits.
    Raises Inexpressible if the zero point is not 0 and there are scales per channel, or no weights.
    """
    operand = op.operand(name)
    if operand.channels is not None:
        return True
    zero = operand.zero_point - (0 if is_signed(operand.type) else 128)
    if zero != 0 or not op.scope.constant(op.index(name)):
        return False
    least = -128 if is_signed(operand.type) else 0
    return bool(op.constant(name).min() != least)


def bias(op: FlatOp, weights: str, *, signed: bool) -> int:
    """The tensor of the bias, with the scales that LiteRT expects of a quantized one."""
    if not is_coded(op.operand("input")):
        return op.tensor("bias")
    source, filters = op.operand("input"), op.operand(weights)
    scales = filters.channels.scales if filters.channels else (filters.scale,)
    found = Parameters(tuple(float(np.float32(source.scale * s)) for s in scales))
    tensor = replace(op.described("bias", signed=signed), parameters=found)
    if not op.scope.constant(op.index("bias")):
        return op.graph.reshaped(op.tensor("bias"), tensor.shape, parameters=found)
    array = op.constant("bias")
    return op.graph.constant(tensor, (id(op.operand("bias").value),), lambda: array)


def _dilations(window: WindowGeometry) -> dict[str, OptionValue]:
    return {
        "strideW": window.width.stride,
        "strideH": window.height.stride,
        "dilationWFactor": window.width.dilation,
        "dilationHFactor": window.height.dilation,
    }


def conv_2d(op: FlatOp) -> None:
    """2-D convolution, filter [O, kH, kW, C / groups]."""
    _convolve(op, "CONV_2D", op.shape("filter")[1:3])


def depthwise_conv_2d(op: FlatOp) -> None:
    """Convolution of each channel by itself, filter [1, kH, kW, O]."""
    multiplier = op.number("depth_multiplier")
    taps = op.shape("filter")[1:3]
    _convolve(op, "DEPTHWISE_CONV_2D", taps, depthMultiplier=multiplier)


def _convolve(op: FlatOp, operator: str, taps: tuple[int, ...], **more: OptionValue) -> None:
    window = WindowGeometry.of(**op.scalars())
    signed = is_coded(op.operand("input")) and weights_are_signed(op, "filter")
    image, padding = padded_image(op, window, (taps[0], taps[1]), signed=signed)
    inputs = [image, op.tensor("filter", signed=signed), bias(op, "filter", signed=signed)]
    fields = {
        **_dilations(window),
        **more,
        "padding": padding,
        "fusedActivationFunction": op.number("activation"),
    }
    op.finish_image(operator, inputs, signed=signed, **fields)


def transpose_conv_2d(op: FlatOp) -> None:
    """Transposed convolution, filter [O, kH, kW, C].

    LiteRT derives the padding from the output's shape; of other padding the result is cut off.
    """
    window = WindowGeometry.of(**op.scalars())
    signed = is_coded(op.operand("input")) and weights_are_signed(op, "filter")
    result = op.image_output(signed=signed).shape
    fixed(*result)  # LiteRT allocates a result of another size when it runs
    crops = _crops(op, window, result)
    whole = (result[0], *_whole(op, window), result[3]) if crops else result
    image = op.image("input", signed=signed)
    inputs = [
        op.graph.ints(whole),
        op.tensor("filter", signed=signed),
        image,
        bias(op, "filter", signed=signed),
    ]
    fields: dict[str, OptionValue] = {
        "padding": VALID if crops else SAME,
        "strideW": window.width.stride,
        "strideH": window.height.stride,
        "fusedActivationFunction": op.number("activation"),
    }
    if not crops or whole == result:
        op.finish_image("TRANSPOSE_CONV", inputs, signed=signed, **fields)
        return
    wide = replace(op.image_output(signed=signed), shape=whole)
    value = op.computed("TRANSPOSE_CONV", inputs, wide, **fields)
    begin = op.graph.ints((0, *crops, 0))
    op.finish_image("SLICE", [value, begin, op.graph.ints(result)], signed=signed)


def _crops(op: FlatOp, window: WindowGeometry, result: tuple[int, ...]) -> tuple[int, ...]:
    """Rows and columns to remove in front of what VALID computes; none for SAME."""
    if window.height.scheme is not None:
        return () if window.height.scheme is PaddingCode.SAME else (0, 0)
    axes = window.height, window.width
    whole = _whole(op, window)
    same = zip(axes, op.image_shape("input")[1:3], whole, result[1:3], strict=True)
    if all(
        out == size * a.stride and a.before == max(0, total - out) // 2
        for a, size, total, out in same
    ):
        return ()
    return tuple(a.before for a in axes)


def _whole(op: FlatOp, window: WindowGeometry) -> list[int]:
    """Rows and columns that a transposed convolution has with VALID padding."""
    axes = zip(
        (window.height, window.width),
        op.image_shape("input")[1:3],
        op.shape("filter")[1:3],
        strict=True,
    )
    return [(size - 1) * a.stride + tap for a, size, tap in axes]


def max_pool_2d(op: FlatOp) -> None:
    """Max pooling; other padding than SAME is with the least number, which no window selects."""
    op.same_quantization("input")
    window, taps = _window(op)
    for (before, after), size in zip(pads(op, window, taps), taps, strict=True):
        require(max(before, after) < size, "a window lies in the padding only")
    signed = op.signed("input")
    least = float(np.finfo(np.float32).min)
    if is_coded(op.operand("input")):
        least = -128 if signed else 0
    image, padding = padded_image(op, window, taps, signed=signed, fill=least)
    fields = _fields(op, window, taps, padding)
    op.finish_image("MAX_POOL_2D", [image], signed=signed, **fields)


def _averaging(operator: str, op: FlatOp, *, root: bool = False) -> None:
    """Pools that leave padding out of the mean, which LiteRT does with its own padding only.

    Of other padding the mean with zeros is multiplied by the share of taps that are in the image.
    root   True if it is the square root of a mean
    """
    op.same_quantization("input")
    window, taps = _window(op)
    signed = op.signed("input")
    padding = scheme(op, window, taps)
    if padding is None and is_coded(op.operand("input")):
        through_float(partial(_averaging, operator, root=root))(op)
        return
    if padding is not None:
        image = op.image("input", signed=signed)
        fields = _fields(op, window, taps, padding)
        op.finish_image(operator, [image], signed=signed, **fields)
        return
    image, padding = padded_image(op, window, taps, signed=False)
    fields = {**_fields(op, window, taps, padding), "fusedActivationFunction": 0}
    mean = op.computed(operator, [image], op.image_output(signed=False), **fields)
    shares = _shares(op, window, taps)
    factor = op.graph.array(np.sqrt(shares) if root else shares)
    activation = op.number("activation")
    op.finish_image("MUL", [mean, factor], signed=False, fusedActivationFunction=activation)


def _shares(op: FlatOp, window: WindowGeometry, taps: tuple[int, int]) -> Array:
    """Taps of a window by those of them that are in the image, [1, rows, columns, 1]."""
    axes = window.height, window.width
    sizes = op.image_shape("input")[1:3], op.image_shape("output")[1:3]
    fixed(*sizes[0], *sizes[1])
    counts = []
    for axis, tap, size, count in zip(axes, taps, *sizes, strict=True):
        starts = np.arange(count) * axis.stride - axis.pads(size, tap)[0]
        inside = np.minimum(starts + tap, size) - np.maximum(starts, 0)
        counts.append(tap / inside)
    return np.multiply.outer(*counts)[None, :, :, None].astype(np.float32)


def _window(op: FlatOp) -> tuple[WindowGeometry, tuple[int, int]]:
    taps = (op.number("filter_height"), op.number("filter_width"))
    return WindowGeometry.of(**op.scalars()), taps


def _fields(
    op: FlatOp, window: WindowGeometry, taps: tuple[int, int], padding: int
) -> dict[str, OptionValue]:
    return {
        "padding": padding,
        "strideW": window.width.stride,
        "strideH": window.height.stride,
        "filterHeight": taps[0],
        "filterWidth": taps[1],
        "fusedActivationFunction": op.number("activation"),
    }


ROWS = (
    row(spec.CONV_2D, conv_2d, *DATA),
    row(spec.GROUPED_CONV_2D, conv_2d, *DATA),
    row(spec.DEPTHWISE_CONV_2D, depthwise_conv_2d, *DATA),
    row(spec.TRANSPOSE_CONV_2D, transpose_conv_2d, *DATA),
    row(spec.MAX_POOL_2D, max_pool_2d, F32, Q8, Q8S),
    row(spec.AVERAGE_POOL_2D, partial(_averaging, "AVERAGE_POOL_2D"), F32, Q8, Q8S),
    row(spec.L2_POOL_2D, partial(_averaging, "L2_POOL_2D", root=True), F32),
)
