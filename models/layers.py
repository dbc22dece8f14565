"""Layers as exporters write them, with weights that keep activations in range.

Convolutions and dense layers are initialised so that variance survives the activation after them.
Source: K. He et al., "Delving deep into rectifiers", 2015.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from models.builder import Attribute, Graph, Tensor


@dataclass(frozen=True, slots=True)
class Window:
    """Height and width of a kernel and its stride; `pads` top, left, bottom, right.

    Without pads the ONNX file says SAME_UPPER, as TensorFlow's exporter does.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    dilation: int = 1

    def attributes(self) -> Mapping[str, Attribute]:
        """As ONNX attributes, dilations left out where they are 1."""
        attributes: dict[str, Attribute] = {"kernel_shape": self.kernel, "strides": self.stride}
        if self.pads is None:
            attributes["auto_pad"] = "SAME_UPPER"
        else:
            attributes["pads"] = self.pads
        if self.dilation != 1:
            attributes["dilations"] = (self.dilation, self.dilation)
        return attributes


POINT = Window((1, 1))
BRANCH = 0.3  # how large a residual branch is beside what it is added to


def centred(kernel: int, stride: int = 1, dilation: int = 1) -> Window:
    """A square window with the same padding on all sides, as PyTorch's models have it."""
    edge = (kernel - 1) // 2 * dilation
    return Window((kernel, kernel), (stride, stride), (edge, edge, edge, edge), dilation)


def same_upper(kernel: int, stride: int = 1) -> Window:
    """A square window padded at run time, the odd pixel at the bottom and the right."""
    return Window((kernel, kernel), (stride, stride), None)


def conv(
    g: Graph,
    x: Tensor,
    channels: int,
    window: Window = POINT,
    *,
    groups: int = 1,
    bias: bool = True,
    gain: float = 2.0,
) -> Tensor:
    """A convolution; `gain` is how much of the variance the activation after it takes away."""
    shape = (channels, x.width // groups, *window.kernel)
    inputs = [x, g.normal(*shape, std=sqrt(gain / prod(shape[1:])))]
    if bias:
        inputs.append(g.normal(channels, std=0.05))
    return g.add("Conv", *inputs, group=groups, **window.attributes()).wide(channels)


def conv_transpose(g: Graph, x: Tensor, channels: int, window: Window) -> Tensor:
    """A transposed convolution with bias; only every stride-th tap meets a pixel."""
    shape = (x.width, channels, *window.kernel)
    taps = x.width * prod(window.kernel) / prod(window.stride)
    inputs = (x, g.normal(*shape, std=sqrt(2 / taps)), g.normal(channels, std=0.05))
    return g.add("ConvTranspose", *inputs, **window.attributes()).wide(channels)


NORMALISED = {  # mean and deviation before an activation, such that it meets all its pieces
    "": (0.0, 1.0),
    "Relu": (1.0, 1.0),
    "Relu6": (2.4, 1.8),
    "HardSwish": (1.0, 1.5),
}


def batch_norm(
    g: Graph, x: Tensor, *, kind: str = "", gain: float = 1.0, epsilon: float = 1e-5
) -> Tensor:
    """Batch normalization in inference, before the activation `kind`.

    Its statistics wait to be measured (`statistics`). Means are well above zero: were half of all
    values cut off, each layer would multiply rounding errors, which trained networks do not.
    """
    mean, deviation = NORMALISED[kind]
    bias = g.rng.standard_normal(x.width, np.float32) * np.float32(0.2) + np.float32(mean)
    return g.add(
        "BatchNormalization",
        x,
        g.uniform(x.width, low=0.8 * gain * deviation, high=1.2 * gain * deviation),
        g.weight(bias),
        g.weight(np.zeros(x.width, np.float32)),
        g.weight(np.ones(x.width, np.float32)),
        epsilon=epsilon,
    )


def activation(g: Graph, x: Tensor, kind: str) -> Tensor:
    """The activation called `kind`: "", "Relu6" or an ONNX operator of one input."""
    if not kind:
        return x
    if kind == "Relu6":
        return g.add("Clip", x, g.scalar(0), g.scalar(6))
    return g.add(kind, x)


def conv_bn(
    g: Graph,
    x: Tensor,
    channels: int,
    window: Window = POINT,
    *,
    kind: str = "Relu",
    groups: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Convolution without bias, batch normalization and the activation `kind`."""
    y = conv(g, x, channels, window, groups=groups, bias=False)
    return activation(g, batch_norm(g, y, kind=kind, epsilon=epsilon), kind)


def dense(g: Graph, x: Tensor, width: int, *, gain: float = 1.0) -> Tensor:
    """A fully connected layer on [N, F] as PyTorch exports it: Gemm with the weight [width, F]."""
    weight = g.normal(width, x.width, std=sqrt(gain / x.width))
    return g.add("Gemm", x, weight, g.normal(width, std=0.05), transB=1).wide(width)


def linear(g: Graph, x: Tensor, width: int) -> Tensor:
    """A fully connected layer on [..., F] as PyTorch exports it: MatMul, then Add of the bias."""
    y = g.add("MatMul", x, g.normal(x.width, width, std=sqrt(1 / x.width))).wide(width)
    return g.add("Add", g.normal(width, std=0.05), y).wide(width)


def pooled(g: Graph, x: Tensor) -> Tensor:
    """The mean of each channel, [N, C]."""
    return g.add("Flatten", g.add("GlobalAveragePool", x), axis=1)


def classifier(g: Graph, x: Tensor, classes: int = 1000) -> None:
    """Ends the network in `scores` [N, classes] of the channels' means."""
    g.output(dense(g, pooled(g, x), classes), "scores")
