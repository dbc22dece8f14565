"""Convolutions and pooling: float in NCHW, quantized in NHWC by the kernels for that layout."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.shapes.convolution import AxisGeometry, WindowGeometry
from ep_nnapi.nnapi.sizes import is_symbolic
from ep_nnapi.nnapi.spec import DATA, F16, F32, Q8, Q8S
from ep_nnapi.ort_devices.graph import Attribute, require
from ep_nnapi.ort_devices.operation import Op, row
from ep_nnapi.ort_devices.scope import (
    TO_NCHW,
    TO_NHWC,
    Perm,
    converted,
    identity,
    is_coded,
    permuted,
    zero_point,
)

_PLAIN = identity(4)
_OIHW: Perm = (0, 3, 1, 2)
_DEPTHWISE: Perm = (3, 0, 1, 2)
_TRANSPOSED: Perm = (3, 0, 1, 2)


def to_nchw(window: WindowGeometry) -> Perm:
    """The permutation from an image's own layout to NCHW."""
    return _PLAIN if window.nchw else TO_NCHW


def to_nhwc(window: WindowGeometry) -> Perm:
    """The permutation from an image's own layout to NHWC."""
    return TO_NHWC if window.nchw else _PLAIN


def sliding(op: Op, window: WindowGeometry, taps: tuple[int, int]) -> dict[str, Attribute]:
    """ONNX attributes of a window of `taps` over the input.

    Padding that differs from size to size is only that of NNAPI's SAME, which is ONNX's SAME_UPPER;
    ONNX Runtime has that for windows without dilation.
    """
    _, _, height, width = permuted(op.shape("input"), to_nchw(window))
    top, bottom = window.height.pads(height, taps[0])
    left, right = window.width.pads(width, taps[1])
    pads = (top, left, bottom, right)
    same = is_symbolic(pads) and window.height.dilation == window.width.dilation == 1
    return {
        "kernel_shape": taps,
        "strides": (window.height.stride, window.width.stride),
        **({"auto_pad": "SAME_UPPER"} if same else {"pads": pads}),
    }


def conv_2d(op: Op) -> None:
    """2-D convolution, filter [O, kH, kW, C / groups]."""
    _convolve(op, _OIHW, op.number("num_groups", 1))


def depthwise_conv_2d(op: Op) -> None:
    """Convolution of each channel by itself, filter [1, kH, kW, O]."""
    multiplier = op.number("depth_multiplier")
    require(multiplier > 0, "the depth multiplier is not positive")
    _convolve(op, _DEPTHWISE, op.shape("filter")[3] // multiplier)


def _convolve(op: Op, perm: Perm, groups: int) -> None:
    """Lower a convolution; `perm` permutes its filter to [O, C / groups, kH, kW]."""
    window = WindowGeometry.of(**op.scalars())
    _, _, high, wide = permuted(op.shape("filter"), perm)
    attributes = sliding(op, window, (high, wide))
    attributes["dilations"] = (window.height.dilation, window.width.dilation)
    attributes["group"] = groups
    if is_coded(op.operand("input")):
        _quantized(op, window, perm, attributes)
        return
    layout = to_nchw(window)
    x, w, b = op.real("input", layout), op.real("filter", perm), op.real("bias")
    op.finish(op.node("Conv", x, w, b, **attributes), layout)


def _quantized(
    op: Op, window: WindowGeometry, perm: Perm, attributes: dict[str, Attribute]
) -> None:
    layout = to_nhwc(window)
    arguments = (
        op.stored("input", layout),
        *op.scope.quantization(op.operand("input")),
        *weights(op, "filter", perm),
        *op.scope.quantization(op.operand("output")),
        op.stored("bias"),
    )
    value = op.contrib("QLinearConv", *arguments, channels_last=1, **attributes)
    op.clamp(value, layout)


def weights(op: Op, name: str, perm: Perm) -> tuple[str, str, str]:
    """Quantized weights in the type whose kernel is exact and fast, their scale and zero point.

    Moving weights and zero points by 128 between int8 and uint8 changes no product. Weights that
    are not constant are uint8.
    """
    operand = op.operand(name)
    scales = operand.channels.scales if operand.channels else operand.scale
    zero = 128 if operand.channels else zero_point(operand)
    int8 = op.kernels.int8_weights and isinstance(operand.value, Data)
    dtype = np.int8 if int8 else np.uint8
    zeros = np.full(np.shape(scales), zero - 128 if int8 else zero)

    def make() -> Array:
        unsigned = converted(operand.elements, Q8S if operand.channels else operand.type)
        return (unsigned ^ np.uint8(128)).view(np.int8) if int8 else unsigned

    if isinstance(operand.value, Data):
        key = (id(operand.value), perm, dtype)
        value = op.scope.graph.constants.lazy(key, lambda: make().transpose(perm))
    else:
        value = op.stored(name, perm)
        if operand.channels:
            value = op.scope.as_unsigned(value)
    return value, op.array(scales), op.array(zeros, dtype)


def transpose_conv_2d(op: Op) -> None:
    """Transposed convolution, of quantized tensors by way of real numbers."""
    window = WindowGeometry.of(**op.scalars())
    layout = to_nchw(window)
    _, _, high, wide = permuted(op.shape("filter"), _OIHW)
    _, _, *sizes = permuted(op.shape("input"), layout)
    _, _, *results = permuted(op.shape("output"), layout)
    sides = zip((window.height, window.width), sizes, results, (high, wide), strict=True)
    (top, bottom, down), (left, right, across) = (_cropped(*side) for side in sides)
    b = op.real("bias")
    if is_coded(op.operand("input")):
        b = _real_bias(op)
    value = op.node(
        "ConvTranspose",
        op.real("input", layout),
        _real_filter(op),
        b,
        kernel_shape=(high, wide),
        strides=(window.height.stride, window.width.stride),
        pads=(top, left, bottom, right),
        output_padding=(down, across),
    )
    op.finish(value, layout)


def _cropped(side: AxisGeometry, size: int, result: int, taps: int) -> tuple[int, int, int]:
    """Sizes cropped before and after along one axis, and the size added after."""
    before, _ = side.pads(result, taps)
    whole = (size - 1) * side.stride + taps
    after = whole - before - result
    added = max(0, -after)
    require(added == 0 or added < side.stride, "the output extends beyond the last window")
    return before, max(0, after), added


def _real_filter(op: Op) -> str:
    """The filter as real numbers [C, O, kH, kW]."""
    operand = op.operand("filter")
    if operand.channels is None:
        return op.real("filter", _TRANSPOSED)
    real = op.node(
        "DequantizeLinear", op.stored("filter"), op.array(operand.channels.scales), axis=0
    )
    return op.node("Transpose", real, perm=_TRANSPOSED)


def _real_bias(op: Op) -> str:
    """The bias of a quantized convolution as real numbers."""
    weight, source = op.operand("filter"), op.operand("input")
    scales = weight.channels.scales if weight.channels else weight.scale
    factor = np.array(scales, np.float64) * source.scale
    real = op.node("Cast", op.stored("bias"), to=TensorProto.FLOAT)
    return op.node("Mul", real, op.array(factor))


def _window(op: Op) -> tuple[WindowGeometry, dict[str, Attribute]]:
    """The window of a pool, and its ONNX attributes."""
    window = WindowGeometry.of(**op.scalars())
    taps = (op.number("filter_height"), op.number("filter_width"))
    return window, sliding(op, window, taps)


def max_pool_2d(op: Op) -> None:
    """Max pooling."""
    window, attributes = _window(op)
    layout = to_nchw(window)
    op.finish(op.node("MaxPool", op.real("input", layout), **attributes), layout)


def max_pool_2d_quantized(op: Op) -> None:
    """Max pooling of stored numbers, requantized where the output's quantization differs."""
    window, attributes = _window(op)
    if op.operand("input").quantization != op.operand("output").quantization:
        max_pool_2d(op)
        return
    layout = to_nhwc(window)
    op.clamp(op.contrib("NhwcMaxPool", op.stored("input", layout), **attributes), layout)


def average_pool_2d(op: Op) -> None:
    """Average pooling, excluding padding."""
    window, attributes = _window(op)
    layout = to_nchw(window)
    value = op.node("AveragePool", op.real("input", layout), count_include_pad=0, **attributes)
    op.finish(value, layout)


def average_pool_2d_quantized(op: Op) -> None:
    """Average pooling by ONNX Runtime's kernel for quantized tensors in NHWC."""
    window, attributes = _window(op)
    layout = to_nhwc(window)
    value = op.contrib(
        "QLinearAveragePool",
        op.stored("input", layout),
        *op.scope.quantization(op.operand("input")),
        *op.scope.quantization(op.operand("output")),
        channels_last=1,
        count_include_pad=0,
        **attributes,
    )
    op.clamp(value, layout)


def l2_pool_2d(op: Op) -> None:
    """Root of the mean square."""
    window, attributes = _window(op)
    layout = to_nchw(window)
    x = op.real("input", layout)
    mean = op.node("AveragePool", op.node("Mul", x, x), count_include_pad=0, **attributes)
    op.finish(op.node("Sqrt", op.node("Max", mean, op.array(0, np.float32))), layout)


ROWS = (
    row(spec.CONV_2D, conv_2d, *DATA),
    row(spec.GROUPED_CONV_2D, conv_2d, *DATA),
    row(spec.DEPTHWISE_CONV_2D, depthwise_conv_2d, *DATA),
    row(spec.TRANSPOSE_CONV_2D, transpose_conv_2d, *DATA),
    row(spec.MAX_POOL_2D, max_pool_2d, F32, F16),
    row(spec.MAX_POOL_2D, max_pool_2d_quantized, Q8, Q8S),
    row(spec.AVERAGE_POOL_2D, average_pool_2d, F32, F16),
    row(spec.AVERAGE_POOL_2D, average_pool_2d_quantized, Q8, Q8S),
    row(spec.L2_POOL_2D, l2_pool_2d, F32, F16),
)
