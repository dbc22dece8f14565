"""Networks on sound: keyword spotting and noise suppression."""

from math import sqrt

from models.builder import Graph, Tensor
from models.layers import (
    POINT,
    Window,
    batch_norm,
    centred,
    conv,
    conv_bn,
    conv_transpose,
    dense,
    linear,
)
from models.sizes import Sizes

BANDS = 64  # of the denoiser's spectrogram
STATE = 128


def kws_dscnn(g: Graph, sizes: Sizes) -> None:
    """DS-CNN on `size` frames of 10 MFCCs, 12 keywords; biases before batch norm as Keras has.

    Source: Y. Zhang et al., "Hello edge", 2017 (DS-CNN-S); the MLPerf Tiny benchmark.
    """
    x = g.input("mfcc", (sizes.n(), 1, sizes.size, 10))
    rows = -(-sizes.size // 2)
    missing = (rows - 1) * 2 + 10 - sizes.size  # so many rows SAME padding adds
    pads = (missing // 2, 1, missing - missing // 2, 1)
    x = biased_bn(g, x, 64, Window((10, 4), (2, 2), pads))
    for _ in range(4):
        x = biased_bn(g, x, 64, centred(3), groups=64)
        x = biased_bn(g, x, 64, POINT)
    x = g.add("AveragePool", x, kernel_shape=(rows, 5), strides=(rows, 5))
    x = dense(g, g.add("Flatten", x, axis=1), 12)
    g.output(g.add("Softmax", x, axis=1), "probabilities")


def biased_bn(g: Graph, x: Tensor, channels: int, window: Window, groups: int = 1) -> Tensor:
    """Convolution with bias, batch normalization, ReLU."""
    x = conv(g, x, channels, window, groups=groups)
    return g.add("Relu", batch_norm(g, x, kind="Relu", epsilon=1e-3))


def denoiser(g: Graph, sizes: Sizes) -> None:
    """Noise suppression frame by frame, with a GRU that carries its state from call to call.

    `frames` [N, 1, frames, 64] magnitudes and `state` [1, N, 128] give `cleaned` and `new_state`.
    Source: the plan of K. Tan and D. Wang, "A convolutional recurrent neural network for
    real-time speech enhancement", 2018; GRU as PyTorch exports it (linear_before_reset).
    """
    state = g.input("state", (1, sizes.n(), STATE))
    cleaner(g, sizes, "GRU", [state])


def denoiser_lstm(g: Graph, sizes: Sizes) -> None:
    """As `denoiser`, with an LSTM, whose second state is `cell`."""
    state, cell = (g.input(name, (1, sizes.n(), STATE)) for name in ("state", "cell"))
    cleaner(g, sizes, "LSTM", [state, cell])


def cleaner(g: Graph, sizes: Sizes, cell: str, states: list[Tensor]) -> None:
    """Encoder, recurrence over time, decoder with skips, and a mask on the input."""
    frames = g.input("frames", (sizes.n(), 1, sizes.along("frames"), BANDS))
    outer = conv_bn(g, frames, 16, Window((3, 3), (1, 2), (2, 1, 0, 1)))  # never looks ahead
    inner = conv_bn(g, outer, 32, Window((3, 3), (1, 2), (2, 1, 0, 1)))
    x = over_time(g, inner, cell, states)
    double = Window((1, 4), (1, 2), (0, 1, 0, 1))
    x = g.add("Concat", x, inner, axis=1).wide(64)
    x = g.add("Relu", batch_norm(g, conv_transpose(g, x, 16, double), kind="Relu"))
    x = g.add("Concat", x, outer, axis=1).wide(32)
    mask = g.add("Sigmoid", conv_transpose(g, x, 1, double))
    g.output(g.add("Mul", frames, mask), "cleaned")


def over_time(g: Graph, x: Tensor, cell: str, states: list[Tensor]) -> Tensor:
    """`x` [N, C, T, B] after a recurrent layer over T, all of C and B being its features."""
    bands = BANDS // 4
    features = x.width * bands
    steps = g.add("Transpose", x, perm=(2, 0, 1, 3))
    steps = g.add("Reshape", steps, g.ints(0, 0, features)).wide(features)
    y, *after = recurrent(g, steps, cell, states)
    for state, name in zip(after, ("new_state", "new_cell"), strict=False):
        g.output(state, name)
    y = g.add("Squeeze", y, g.ints(1))
    y = g.add("Relu", linear(g, y, features))
    y = g.add("Reshape", y, g.ints(0, 0, x.width, bands))
    return g.add("Transpose", y, perm=(1, 2, 0, 3)).wide(x.width)


def recurrent(g: Graph, x: Tensor, cell: str, states: list[Tensor]) -> list[Tensor]:
    """A forward GRU or LSTM on [T, N, F]: all its outputs, then each last state."""
    gates = {"GRU": 3, "LSTM": 4}[cell] * STATE
    low, high = -1 / sqrt(STATE), 1 / sqrt(STATE)  # PyTorch's own initialisation
    weights = [
        g.uniform(1, gates, x.width, low=low, high=high),
        g.uniform(1, gates, STATE, low=low, high=high),
        g.uniform(1, 2 * gates, low=low, high=high),
    ]
    inputs = [x, *weights, None, *states]
    more = {"linear_before_reset": 1} if cell == "GRU" else {}
    outputs = g.add_many(cell, inputs, 1 + len(states), hidden_size=STATE, **more)
    return [y.wide(STATE) for y in outputs]
