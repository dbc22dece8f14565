"""Mobile image classifiers, of depthwise separable convolutions."""

from dataclasses import dataclass

from models.builder import Graph, Tensor
from models.layers import (
    BRANCH,
    Window,
    activation,
    batch_norm,
    centred,
    classifier,
    conv,
    conv_bn,
    dense,
    pooled,
    same_upper,
)
from models.sizes import Sizes


def separable(g: Graph, x: Tensor, channels: int, stride: int = 1) -> Tensor:
    """A 3x3 depthwise convolution and a pointwise one, each normalised."""
    x = conv_bn(g, x, x.width, centred(3, stride), groups=x.width)
    return conv_bn(g, x, channels)


def mobilenet_v1(g: Graph, sizes: Sizes) -> None:
    """MobileNet 1.0. Source: A. Howard et al., "MobileNets", 2017, table 1."""
    x = conv_bn(g, sizes.image(g), 32, centred(3, 2))
    halving = {128: 64, 256: 128, 512: 256, 1024: 512}
    for channels in (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024):
        x = separable(g, x, channels, 2 if halving.get(channels) == x.width else 1)
    classifier(g, x)


@dataclass(frozen=True, slots=True)
class Block:
    """An inverted residual: widens to `expanded` channels, filters them, narrows to `channels`."""

    window: Window
    expanded: int
    channels: int
    kind: str = "Relu6"
    squeeze: bool = False
    epsilon: float = 1e-5


def inverted_residual(g: Graph, x: Tensor, b: Block) -> Tensor:
    """`b` after `x`, added to it where the shapes agree."""
    y = x
    if b.expanded != x.width:
        y = conv_bn(g, y, b.expanded, kind=b.kind, epsilon=b.epsilon)
    y = conv_bn(g, y, b.expanded, b.window, kind=b.kind, groups=b.expanded, epsilon=b.epsilon)
    if b.squeeze:
        y = squeeze_excite(g, y)
    y = conv(g, y, b.channels, bias=False, gain=1.0)
    if b.window.stride != (1, 1) or b.channels != x.width:
        return batch_norm(g, y, epsilon=b.epsilon)
    return g.add("Add", x, batch_norm(g, y, gain=BRANCH, epsilon=b.epsilon))


def squeeze_excite(g: Graph, x: Tensor) -> Tensor:
    """`x` with each channel weighted by what all channels' means say."""
    y = g.add("GlobalAveragePool", x)
    y = g.add("Relu", conv(g, y, divisible(x.width / 4)))
    y = g.add("HardSigmoid", conv(g, y, x.width, gain=1.0), alpha=1 / 6)
    return g.add("Mul", y, x)


def divisible(width: float) -> int:
    """The multiple of 8 nearest to `width`, but at least nine tenths of it.

    Source: A. Howard et al., "Searching for MobileNetV3", 2019; its authors' code.

    >>> divisible(18)
    24
    """
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


def mobilenet_v2(g: Graph, sizes: Sizes) -> None:
    """MobileNetV2 1.0. Source: M. Sandler et al., "MobileNetV2", 2018, table 2."""
    x = conv_bn(g, sizes.image(g), 32, centred(3, 2), kind="Relu6")
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    for expansion, channels, repeats, first in (
        *rows,
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for stride in (first, *[1] * (repeats - 1)):
            x = inverted_residual(g, x, Block(centred(3, stride), expansion * x.width, channels))
    classifier(g, conv_bn(g, x, 1280, kind="Relu6"))


MOBILENET_V3_LARGE = (  # kernel, expanded, channels, squeeze, activation, stride
    (3, 16, 16, False, "Relu", 1),
    (3, 64, 24, False, "Relu", 2),
    (3, 72, 24, False, "Relu", 1),
    (5, 72, 40, True, "Relu", 2),
    (5, 120, 40, True, "Relu", 1),
    (5, 120, 40, True, "Relu", 1),
    (3, 240, 80, False, "HardSwish", 2),
    (3, 200, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 480, 112, True, "HardSwish", 1),
    (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2),
    (5, 960, 160, True, "HardSwish", 1),
    (5, 960, 160, True, "HardSwish", 1),
)


def mobilenet_v3_large(g: Graph, sizes: Sizes) -> None:
    """MobileNetV3-Large. Source: A. Howard et al., "Searching for MobileNetV3", 2019, table 1."""
    x = conv_bn(g, sizes.image(g), 16, centred(3, 2), kind="HardSwish", epsilon=1e-3)
    for kernel, expanded, channels, squeeze, kind, stride in MOBILENET_V3_LARGE:
        window = centred(kernel, stride)
        x = inverted_residual(g, x, Block(window, expanded, channels, kind, squeeze, 1e-3))
    x = conv_bn(g, x, 960, kind="HardSwish", epsilon=1e-3)
    x = activation(g, dense(g, pooled(g, x), 1280, gain=2.0), "HardSwish")
    g.output(dense(g, x, 1000), "scores")


EFFICIENTNET_LITE0 = (  # kernel, expansion, channels, repeats, stride of the first
    (3, 1, 16, 1, 1),
    (3, 6, 24, 2, 2),
    (5, 6, 40, 2, 2),
    (3, 6, 80, 3, 2),
    (5, 6, 112, 3, 1),
    (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)


def efficientnet_lite0(g: Graph, sizes: Sizes) -> None:
    """EfficientNet-lite0: no squeezing, ReLU6, stem and head not scaled.

    Source: M. Tan and Q. Le, "EfficientNet", 2019, table 1, and the lite variant's README.
    """
    x = conv_bn(g, sizes.image(g), 32, same_upper(3, 2), kind="Relu6", epsilon=1e-3)
    for kernel, expansion, channels, repeats, first in EFFICIENTNET_LITE0:
        for stride in (first, *[1] * (repeats - 1)):
            window = same_upper(kernel, stride)
            x = inverted_residual(g, x, Block(window, expansion * x.width, channels, epsilon=1e-3))
    classifier(g, conv_bn(g, x, 1280, kind="Relu6", epsilon=1e-3))
