"""Pools."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.spec import MAX_POOL_2D
from ep_nnapi.ops.node import Node, op
from ep_nnapi.ops.window import images, layout, window
from ep_nnapi.rejection import Reason


@op("MaxPool", since=1, emits=(MAX_POOL_2D,))
def max_pool(n: Node) -> Iterator[Call]:
    """Two-dimensional maximum over a window.

    x [N, C, H, W], y [N, C, H', W']
    Source: ONNX MaxPool-1 to MaxPool-22; NDK ANEURALNETWORKS_MAX_POOL_2D.
    """
    n.require(
        not n.has_output(1), Reason.ATTRIBUTE, "output Indices is asked for; NNAPI has no such"
    )
    n.require(n.integer("ceil_mode", 0) == 0, Reason.ATTRIBUTE, "ceil_mode is 1; use 0")
    win = window(n, n.integers("kernel_shape"))
    n.require(
        not win.dilated,
        Reason.ATTRIBUTE,
        f"dilations are {list(win.dilations)}, MAX_POOL_2D has none; use 1",
    )
    yield MAX_POOL_2D(
        images(n, n.input(0)),
        **win.operands(),
        filter_width=win.kernel[1],
        filter_height=win.kernel[0],
        layout=layout(n),
        out=images(n, n.output()),
    )
