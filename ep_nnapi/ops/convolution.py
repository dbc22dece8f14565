"""Convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ep_nnapi.nnapi.call import NHWC, Call, Given, View
from ep_nnapi.nnapi.spec import CONV_2D, DEPTHWISE_CONV_2D, GROUPED_CONV_2D
from ep_nnapi.ops.node import Node, op, zeros
from ep_nnapi.ops.window import Window, images, layout, window
from ep_nnapi.rejection import Reason

OHWI = NHWC
"""Where each dimension of NNAPI's convolution filter is found in ONNX's OIHW."""
_1HWO = (1, 2, 3, 0)


@op("Conv", since=1, emits=(CONV_2D, DEPTHWISE_CONV_2D, GROUPED_CONV_2D))
def conv(n: Node) -> Iterator[Call]:
    """Two-dimensional convolution: plain, depthwise (one input channel a group) or grouped.

    x [N, C, H, W], w [O, C / group, kH, kW], b [O] (zeros when absent), y [N, O, H', W']
    Source: ONNX Conv-1, Conv-11, Conv-22; NDK ANEURALNETWORKS_CONV_2D,
    ANEURALNETWORKS_DEPTHWISE_CONV_2D, ANEURALNETWORKS_GROUPED_CONV_2D.
    """
    x, w, y = n.input(0), n.input(1), n.output()
    n.require(w.rank == 4, Reason.RANK, f"{w.name} has rank {w.rank}; NNAPI convolves in 2-D only")
    group = n.integer("group", 1)
    win = window(n, w.shape[2:])
    depthwise = group > 1 and w.shape[1] == 1
    n.require(
        group == 1 or depthwise or not win.dilated,
        Reason.ATTRIBUTE,
        f"dilations are {list(win.dilations)}, GROUPED_CONV_2D has none; use group 1 or depthwise",
    )
    operands: dict[str, Given] = {
        "filter": View(w, _1HWO if depthwise else OHWI),
        "bias": n.input(2) if n.has(2) else zeros(w.shape[0], w.dtype),
        **win.operands(),
    }
    image, out = images(n, x), images(n, y)
    if depthwise:
        multiplier = w.shape[0] // group
        operands |= _dilation(n, win)
        yield DEPTHWISE_CONV_2D(image, **operands, depth_multiplier=multiplier, out=out)
    elif group > 1:
        operands["layout"] = n.target.nchw
        yield GROUPED_CONV_2D(image, **operands, num_groups=group, out=out)
    else:
        yield CONV_2D(image, **operands, **_dilation(n, win), out=out)


def _dilation(n: Node, win: Window) -> Mapping[str, Given]:
    """Layout and dilation operands; (1, 1) is left out, for it makes some drivers refuse."""
    if not win.dilated:
        return {"layout": layout(n)}
    height, width = win.dilations
    return {"layout": n.target.nchw, "dilation_width": width, "dilation_height": height}
