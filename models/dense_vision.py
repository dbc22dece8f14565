"""Networks whose output is an image: super-resolution and segmentation."""

import numpy as np

from models.builder import Graph, Tensor
from models.layers import Window, centred, conv, conv_bn, conv_transpose
from models.mobile import Block, inverted_residual, squeeze_excite
from models.sizes import Sizes


def espcn(g: Graph, sizes: Sizes) -> None:
    """ESPCN, brightness [N, 1, size, size] to three times the size.

    Source: W. Shi et al., "Real-time single image and video super-resolution using an efficient
    sub-pixel convolutional neural network", 2016; pixel shuffle as PyTorch exports it.
    """
    x = sizes.image(g, channels=1)
    for channels, kernel in ((64, 5), (32, 3)):
        x = g.add("Tanh", conv(g, x, channels, centred(kernel), gain=1.0))
    x = conv(g, x, 9, centred(3), gain=1.0)
    g.output(g.add("DepthToSpace", x, blocksize=3, mode="CRD").wide(1), "enlarged")


def segmentation(g: Graph, sizes: Sizes) -> None:
    """A person's `mask` [N, 1, size, size] for a virtual background; size a multiple of 16.

    An encoder of inverted residuals, a decoder that enlarges by Resize (nearest and linear) and
    by transposed convolution, with skips by Add and by Concat.
    """
    half = conv_bn(g, sizes.image(g), 16, centred(3, 2), kind="HardSwish")
    quarter = inverted_residual(g, half, Block(centred(3, 2), 64, 24, "Relu"))
    eighth = inverted_residual(g, quarter, Block(centred(5, 2), 96, 40, "HardSwish", squeeze=True))
    deep = inverted_residual(g, eighth, Block(centred(5, 2), 160, 96, "HardSwish", squeeze=True))
    for dilation in (1, 2):
        block = Block(centred(3, 1, dilation), 288, 96, "HardSwish", squeeze=True)
        deep = inverted_residual(g, deep, block)
    x = g.add("Add", doubled(g, conv_bn(g, deep, 40), "linear"), eighth)
    x = g.add("Add", doubled(g, conv_bn(g, x, 24, centred(3)), "nearest"), quarter)
    x = doubled(g, squeeze_excite(g, x), "linear")
    x = g.add("Concat", conv_bn(g, x, 16), half, axis=1).wide(32)
    x = conv_bn(g, x, 16, centred(3))
    x = conv_transpose(g, x, 1, Window((2, 2), (2, 2)))
    g.output(g.add("Sigmoid", x), "mask")


def doubled(g: Graph, x: Tensor, mode: str) -> Tensor:
    """`x` at twice the height and width, as PyTorch exports its `interpolate`."""
    scales = g.weight(np.array([1, 1, 2, 2], np.float32))
    if mode == "linear":
        where = {"coordinate_transformation_mode": "half_pixel"}
    else:
        where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return g.add("Resize", x, None, scales, mode=mode, **where)
