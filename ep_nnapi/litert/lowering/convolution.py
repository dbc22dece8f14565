"""Convolutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ep_nnapi.litert.flat_graph import Option, Parameters
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.litert.scope import is_signed
from ep_nnapi.litert.windows import SAME, VALID, padded_image
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import is_coded, require


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
    require(op.scope.constant(op.index("bias")), "the bias is not constant")
    source, filters = op.operand("input"), op.operand(weights)
    scales = filters.channels.scales if filters.channels else (filters.scale,)
    found = Parameters(tuple(float(np.float32(source.scale * s)) for s in scales))
    array = op.constant("bias")
    tensor = replace(op.described("bias", signed=signed), parameters=found)
    return op.graph.constant(tensor, (id(op.operand("bias").value),), lambda: array)


def _dilations(window: WindowGeometry) -> dict[str, Option]:
    return {
        "strideW": window.width.stride,
        "strideH": window.height.stride,
        "dilationWFactor": window.width.dilation,
        "dilationHFactor": window.height.dilation,
    }


def conv_2d(op: FlatOp) -> None:
    """2-D convolution, filter [O, kH, kW, C / groups].

    Source: NDK ANEURALNETWORKS_CONV_2D, ANEURALNETWORKS_GROUPED_CONV_2D.
    """
    _convolve(op, "CONV_2D", "Conv2D", op.shape("filter")[1:3])


def depthwise_conv_2d(op: FlatOp) -> None:
    """Convolution of each channel by itself, filter [1, kH, kW, O].

    Source: NDK ANEURALNETWORKS_DEPTHWISE_CONV_2D.
    """
    multiplier = op.number("depth_multiplier")
    taps = op.shape("filter")[1:3]
    _convolve(op, "DEPTHWISE_CONV_2D", "DepthwiseConv2D", taps, depthMultiplier=multiplier)


def _convolve(op: FlatOp, operator: str, kind: str, taps: tuple[int, ...], **more: Option) -> None:
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
    op.finish_image(operator, inputs, kind, signed=signed, **fields)


def transpose_conv_2d(op: FlatOp) -> None:
    """Transposed convolution, filter [O, kH, kW, C].

    LiteRT derives the padding from the output's shape; explicit padding must be what it derives.
    Source: NDK ANEURALNETWORKS_TRANSPOSE_CONV_2D.
    """
    window = WindowGeometry.of(**op.scalars())
    signed = is_coded(op.operand("input")) and weights_are_signed(op, "filter")
    result = op.image_output(signed=signed).shape
    image = op.image("input", signed=signed)
    inputs = [
        op.graph.ints(result),
        op.tensor("filter", signed=signed),
        image,
        bias(op, "filter", signed=signed),
    ]
    fields = {
        "padding": _cropping(op, window, result),
        "strideW": window.width.stride,
        "strideH": window.height.stride,
        "fusedActivationFunction": op.number("activation"),
    }
    op.finish_image("TRANSPOSE_CONV", inputs, "TransposeConv", signed=signed, **fields)


def _cropping(op: FlatOp, window: WindowGeometry, result: tuple[int, ...]) -> int:
    """The padding scheme of a transposed convolution."""
    sizes = [op.shape("input")[i] for i in ((2, 3) if op.nchw else (1, 2))]
    axes = (window.height, window.width)
    taps = op.shape("filter")[1:3]
    if window.height.scheme is not None:
        return SAME if window.height.scheme.name == "SAME" else VALID
    whole = zip(axes, sizes, taps, result[1:3], strict=True)
    crops = [((size - 1) * a.stride + tap - out, a) for a, size, tap, out in whole]
    if all(total == 0 and a.before == 0 for total, a in crops):
        return VALID
    same = zip(axes, sizes, result[1:3], strict=True)
    fits = all(out == size * a.stride for a, size, out in same)
    halves = all(a.before == max(0, total) // 2 for total, a in crops)
    require(fits and halves, "its padding is neither SAME nor VALID")
    return SAME


_DATA = (F32, Q8, Q8S)
ROWS = (
    row(spec.CONV_2D, conv_2d, *_DATA),
    row(spec.GROUPED_CONV_2D, conv_2d, *_DATA),
    row(spec.DEPTHWISE_CONV_2D, depthwise_conv_2d, *_DATA),
    row(spec.TRANSPOSE_CONV_2D, transpose_conv_2d, *_DATA),
)
