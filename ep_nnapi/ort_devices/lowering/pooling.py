"""Pooling."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.ort_devices.graph import Attribute
from ep_nnapi.ort_devices.lowering.convolution import sliding, to_nchw, to_nhwc
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row


def _window(op: Op) -> tuple[WindowGeometry, dict[str, Attribute]]:
    """The window of a pool, and its ONNX attributes."""
    window = WindowGeometry.of(**op.scalars())
    taps = (op.number("filter_height"), op.number("filter_width"))
    return window, sliding(op, window, taps)


def max_pool_2d(op: Op) -> None:
    """Max pooling. Source: NDK ANEURALNETWORKS_MAX_POOL_2D."""
    window, attributes = _window(op)
    layout = to_nchw(window)
    op.finish(op.node("MaxPool", op.real("input", layout), **attributes), layout)


def max_pool_2d_quantized(op: Op) -> None:
    """Max pooling of stored numbers, requantized where the output's quantization differs."""
    window, attributes = _window(op)
    source, output = op.operand("input"), op.operand("output")
    if (source.scale, source.zero_point) != (output.scale, output.zero_point):
        max_pool_2d(op)
        return
    layout = to_nhwc(window)
    op.clamp(op.contrib("NhwcMaxPool", op.stored("input", layout), **attributes), layout)


def average_pool_2d(op: Op) -> None:
    """Average pooling, excluding padding. Source: NDK ANEURALNETWORKS_AVERAGE_POOL_2D."""
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
    """Root of the mean square. Source: NDK ANEURALNETWORKS_L2_POOL_2D."""
    window, attributes = _window(op)
    layout = to_nchw(window)
    x = op.real("input", layout)
    mean = op.node("AveragePool", op.node("Mul", x, x), count_include_pad=0, **attributes)
    op.finish(op.node("Sqrt", op.node("Max", mean, op.array(0, np.float32))), layout)


ROWS = (
    row(spec.MAX_POOL_2D, max_pool_2d, F32, F16),
    row(spec.MAX_POOL_2D, max_pool_2d_quantized, Q8, Q8S),
    row(spec.AVERAGE_POOL_2D, average_pool_2d, F32, F16),
    row(spec.AVERAGE_POOL_2D, average_pool_2d_quantized, Q8, Q8S),
    row(spec.L2_POOL_2D, l2_pool_2d, F32, F16),
)
