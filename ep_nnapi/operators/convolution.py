"""Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.lowering.call import Call
from ep_nnapi.operators.lib.conv_2d import convolve
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.transpose_conv_2d import transpose_convolve


@op("Conv", since=1)
def conv(n: Node) -> Iterator[Call]:
    """Convolution in one or two dimensions: plain, depthwise (one channel a group) or grouped.

    x [N, C, H, W] or [N, C, L], w [O, C / group, kH, kW], b [O] (zeros when absent)
    Source: ONNX Conv-1, Conv-11, Conv-22; NDK ANEURALNETWORKS_CONV_2D,
    ANEURALNETWORKS_DEPTHWISE_CONV_2D, ANEURALNETWORKS_GROUPED_CONV_2D.
    """
    yield from convolve(n, n.output())


@op("ConvTranspose", since=1)
def conv_transpose(n: Node) -> Iterator[Call]:
    """Transposed convolution in one or two dimensions.

    x [N, C, H, W] or [N, C, L], w [C, O / group, kH, kW], b [O] (zeros when absent)
    Dilation, and outputs larger than NNAPI computes, become zeros in the constant filter.
    Source: ONNX ConvTranspose-1, -11, -22; NDK ANEURALNETWORKS_TRANSPOSE_CONV_2D.
    """
    yield from transpose_convolve(n, n.output())
