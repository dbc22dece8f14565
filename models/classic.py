"""Image classifiers of full convolutions, and a perceptron."""

from models.builder import Graph, Tensor
from models.layers import (
    BRANCH,
    Window,
    batch_norm,
    centred,
    classifier,
    conv,
    conv_bn,
    dense,
)
from models.sizes import Sizes


def resnet18(g: Graph, sizes: Sizes) -> None:
    """ResNet-18. Source: K. He et al., "Deep residual learning", 2015, table 1."""
    x = resnet_stem(g, sizes)
    for channels in (64, 128, 256, 512):
        for stride in (1 if channels == 64 else 2, 1):
            y = conv_bn(g, x, channels, centred(3, stride))
            y = batch_norm(g, conv(g, y, channels, centred(3), bias=False), gain=BRANCH)
            x = joined(g, x, y, stride)
    classifier(g, x)


def resnet50(g: Graph, sizes: Sizes) -> None:
    """ResNet-50, strides on the 3x3 convolutions as PyTorch's. Source: as ResNet-18."""
    x = resnet_stem(g, sizes)
    for channels, repeats in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for stride in (1 if channels == 64 else 2, *[1] * (repeats - 1)):
            y = conv_bn(g, x, channels)
            y = conv_bn(g, y, channels, centred(3, stride))
            y = batch_norm(g, conv(g, y, 4 * channels, bias=False), gain=BRANCH)
            x = joined(g, x, y, stride)
    classifier(g, x)


def resnet_stem(g: Graph, sizes: Sizes) -> Tensor:
    """The first convolution and pooling, to a quarter of the size."""
    x = conv_bn(g, sizes.image(g), 64, centred(7, 2))
    return g.add("MaxPool", x, **centred(3, 2).attributes())


def joined(g: Graph, x: Tensor, y: Tensor, stride: int) -> Tensor:
    """The rectified sum of the branch `y` and `x`, which is projected where shapes differ."""
    if y.width != x.width:
        projection = conv(g, x, y.width, Window((1, 1), (stride, stride)), bias=False)
        x = batch_norm(g, projection, kind="Relu")
    return g.add("Relu", g.add("Add", y, x))


def squeezenet1_1(g: Graph, sizes: Sizes) -> None:
    """SqueezeNet 1.1. Source: F. Iandola et al., "SqueezeNet", 2016, and its authors' code."""
    half = Window((3, 3), (2, 2))
    x = g.add("Relu", conv(g, sizes.image(g), 64, half))
    for squeezed, expanded, pool in (
        (16, 64, True),
        (16, 64, False),
        (32, 128, True),
        (32, 128, False),
        (48, 192, True),
        (48, 192, False),
        (64, 256, False),
        (64, 256, False),
    ):
        if pool:
            x = g.add("MaxPool", x, ceil_mode=1, **half.attributes())
        x = g.add("Relu", conv(g, x, squeezed))
        left = g.add("Relu", conv(g, x, expanded))
        right = g.add("Relu", conv(g, x, expanded, centred(3)))
        x = g.add("Concat", left, right, axis=1).wide(2 * expanded)
    x = g.add("Relu", conv(g, x, 1000))
    g.output(g.add("Flatten", g.add("GlobalAveragePool", x), axis=1), "scores")


def vgg_small(g: Graph, sizes: Sizes) -> None:
    """Pairs of 3x3 convolutions between max pools, then two dense layers, 10 classes.

    Source: the plan of K. Simonyan and A. Zisserman, "Very deep convolutional networks", 2014.
    """
    x = sizes.image(g)
    for channels in (32, 64, 128):
        for _ in range(2):
            x = g.add("Relu", conv(g, x, channels, centred(3)))
        x = g.add("MaxPool", x, kernel_shape=(2, 2), strides=(2, 2))
    x = g.add("Flatten", x, axis=1).wide(128 * (sizes.size // 8) ** 2)
    g.output(dense(g, g.add("Relu", dense(g, x, 256, gain=2.0)), 10), "scores")


def mlp(g: Graph, sizes: Sizes) -> None:
    """784-512-512-10: the perceptron of many an introduction to handwritten digits."""
    x = g.input("pixels", (sizes.n(), sizes.size))
    for width in (512, 512):
        x = g.add("Relu", dense(g, x, width, gain=2.0))
    g.output(dense(g, x, 10), "scores")
