"""Small random modules of common layers, for comparison with eager PyTorch.

A module is drawn from a seed: a chain of layers, each one that fits the shape before it, for images
[N, C, H, W] or for sequences [N, T, C].
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from tests.torch.networks import Call, seeded

Layer = Callable[[random.Random, tuple[int, ...]], nn.Module]


class Residual(nn.Module):
    """A layer beside its input."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return x + y if y.shape == x.shape else y


class Recurrent(nn.Module):
    """The outputs of a recurrent layer, without its states."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself, with or without a causal mask."""

    def __init__(self, size: int, causal: bool) -> None:
        super().__init__()
        self.layer, self.causal = nn.MultiheadAttention(size, 2, batch_first=True), causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1) if self.causal else None
        return self.layer(x, x, x, attn_mask=mask, need_weights=False)[0]


def convolution(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    channels, kernel = shape[1], draw.choice((1, 2, 3))
    out, groups = draw.choice(((6, 1), (8, 1), (channels, channels), (2 * channels, channels)))
    return nn.Conv2d(
        channels, out, kernel, draw.choice((1, 1, 2)), draw.choice((0, 1)), draw.choice((1, 1, 2)),
        groups, draw.random() < 0.7, draw.choice(("zeros", "zeros", "reflect", "circular")),
    )  # fmt: skip


def transposed(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    stride = draw.choice((1, 2))
    extra = draw.choice((0, stride - 1))
    return nn.ConvTranspose2d(shape[1], 4, draw.choice((2, 3)), stride, 1, extra)


def pooling(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    ceil = draw.random() < 0.3
    return draw.choice(
        (
            nn.MaxPool2d(2, draw.choice((1, 2)), ceil_mode=ceil),
            nn.MaxPool2d(3, 1, 1, dilation=draw.choice((1, 2))),
            nn.AvgPool2d(3, 2, 1, ceil_mode=ceil, count_include_pad=draw.random() < 0.5),
            nn.AdaptiveAvgPool2d(draw.choice((1, 2, (2, 1)))),
            nn.LPPool2d(2, 2),
        )
    )


def resized(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    mode = draw.choice(("nearest", "bilinear", "bicubic", "nearest-exact"))
    corners = draw.choice((None, True, False)) if mode.startswith("bi") else None
    if draw.random() < 0.5:
        return nn.Upsample(scale_factor=draw.choice((2, 1.5)), mode=mode, align_corners=corners)
    return nn.Upsample(size=(7, 5), mode=mode, align_corners=corners)


def normalized(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    channels = shape[1]
    return draw.choice(
        (
            nn.BatchNorm2d(channels), nn.GroupNorm(1, channels), nn.InstanceNorm2d(channels),
            nn.LocalResponseNorm(3),
        )
    )  # fmt: skip


ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.LogSigmoid,
    nn.PReLU, nn.CELU, nn.Hardshrink, nn.Softshrink, nn.Tanhshrink, nn.Threshold,
)  # fmt: skip


def activation(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    found = draw.choice(ACTIVATIONS)
    return found(0.1, -0.5) if found is nn.Threshold else found()


SHAPED = {
    "pad": lambda x: functional.pad(x, (1, 0, 2, 1), value=0.5),
    "crop": lambda x: functional.pad(x, (-1, 0)) if x.shape[-1] > 1 else x,
    "reflect": lambda x: functional.pad(x, (1, 1), mode="replicate"),
    "cat": lambda x: torch.cat([x, -x], 1),
    "split": lambda x: torch.cat(torch.split(x, 1, 1)[::-1], 1),
    "chunk": lambda x: torch.stack(torch.chunk(x, 2, -1)[:1], 0)[0],
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: torch.roll(x, 1, -1),
    "slice": lambda x: x[..., ::2],
    "select": lambda x: x.select(-1, 0).unsqueeze(-1),
    "swap": lambda x: x.transpose(-1, -2),
    "masked_fill": lambda x: x.masked_fill(x > 0.2, -1.0),
    "where": lambda x: torch.where(x.abs() < 0.5, x, x.sign()),
    "clamp": lambda x: x.clamp(-0.5, 0.8),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(1),
    "cumsum": lambda x: x.cumsum(-1),
    "norm": lambda x: x / (x.norm(dim=-1, keepdim=True) + 1),
    "normalize": lambda x: functional.normalize(x, dim=1),
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "var": lambda x: x / (x.var(-1, keepdim=True, unbiased=False) + 1).sqrt(),
    "amax": lambda x: x - x.amax(1, keepdim=True),
    "sort": lambda x: x.sort(-1)[0],
    "topk": lambda x: x.topk(1, -1)[0],
    "argmax": lambda x: x * x.argmax(-1, keepdim=True),
    "gather": lambda x: x.gather(-1, x.argsort(-1)),
    "einsum": lambda x: torch.einsum("...ij,...kj->...ik", x, x),
    "matmul": lambda x: x @ x.mT,
    "outer": lambda x: (x.unsqueeze(-1) * x.unsqueeze(-2)).sum(-1),
    "logic": lambda x: ((x > 0) & (x < 1) | (x < -1)).to(x.dtype) - x,
    "round": lambda x: (x * 4).round() / 4 + x.floor(),
    "remainder": lambda x: torch.remainder(x, 0.75),
    "pow": lambda x: x.abs().pow(1.5) + x**2,
    "trigonometry": lambda x: x.sin() + x.cos() * x.atan(),
    "exp": lambda x: (-x.abs()).exp() + (x.abs() + 1).log() - x.erf(),
    "rsqrt": lambda x: torch.rsqrt(x * x + 1),
    "logsumexp": lambda x: x - x.logsumexp(-1, keepdim=True),
    "tril": lambda x: x.tril(),
    "expand": lambda x: x + x[:1].expand_as(x),
    "repeat": lambda x: x.repeat_interleave(2, -1),
    "index": lambda x: x[..., torch.tensor([0, -1])],
    "unfold": lambda x: x.unfold(-1, 2, 1).mean(-1) if x.shape[-1] > 1 else x,
    "int": lambda x: (x * 10).to(torch.int32).to(x.dtype) * 0.1,
    "minimum": lambda x: torch.minimum(x, x.roll(1, 1)),
}


def function(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    name = draw.choice(list(SHAPED))
    return Call(SHAPED[name])


IMAGE_ONLY: tuple[Layer, ...] = (
    convolution, convolution, transposed, pooling, resized, normalized,
    lambda draw, shape: nn.PixelShuffle(2) if shape[1] % 4 == 0 else nn.PixelUnshuffle(1),
    lambda draw, shape: nn.ChannelShuffle(2) if shape[1] % 2 == 0 else nn.ZeroPad2d(1),
)  # fmt: skip


def linear(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    return nn.Linear(shape[-1], draw.choice((4, 6, 8)), draw.random() < 0.7)


def recurrent(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    kind = draw.choice((nn.LSTM, nn.GRU, nn.RNN))
    both = draw.random() < 0.4
    return Recurrent(kind(shape[-1], 4, draw.choice((1, 2)), batch_first=True, bidirectional=both))


def attention(draw: random.Random, shape: tuple[int, ...]) -> nn.Module:
    if shape[-1] % 2:
        return nn.Linear(shape[-1], 4)
    return SelfAttention(shape[-1], draw.random() < 0.5)


SEQUENCE_ONLY: tuple[Layer, ...] = (
    linear, linear, recurrent, attention, lambda draw, shape: nn.LayerNorm(shape[-1]),
    lambda draw, shape: nn.Conv1d(shape[1], draw.choice((4, 5)), 3, padding=1),
    lambda draw, shape: nn.AdaptiveMaxPool1d(2), lambda draw, shape: nn.GLU() if shape[-1] % 2 == 0
    else nn.Identity(), lambda draw, shape: nn.RMSNorm(shape[-1]),
)  # fmt: skip
MOST_NUMBERS = 4096
"""Numbers in the results between two layers."""


@dataclass(frozen=True)
class Drawn:
    """A module, its input, and the names of its layers."""

    module: nn.Module
    given: torch.Tensor
    names: str


def drawn(seed: int) -> Drawn:
    """The module of a seed."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    words = draw.random() < 0.2
    images = not words and draw.random() < 0.5
    batch = draw.choice((1, 2))
    if words:
        given = torch.randint(0, 20, (batch, 5), generator=torch.Generator().manual_seed(seed))
        layers: list[nn.Module] = [nn.Embedding(20, 6)]
    else:
        given = seeded(batch, 4, 6, 8, seed=seed) if images else seeded(batch, 5, 6, seed=seed)
        layers = []
    own = IMAGE_ONLY if images else SEQUENCE_ONLY
    kinds: tuple[Layer, ...] = (*own, activation, function, function, function)
    value = nn.Sequential(*layers).eval()(given)
    for _ in range(30):
        layer = draw.choice(kinds)(draw, tuple(value.shape))
        if draw.random() < 0.2:
            layer = Residual(layer)
        found = _tried(layer.eval(), value)
        if found is not None:
            layers.append(layer)
            value = found
        if len(layers) == 6:
            break
    names = " ".join(_name(layer) for layer in layers)
    return Drawn(nn.Sequential(*layers).eval(), given, names)


def _name(layer: nn.Module) -> str:
    if isinstance(layer, Call):
        return next(name for name, found in SHAPED.items() if found is layer.function)
    if isinstance(layer, Residual):
        return f"Residual({_name(layer.layer)})"
    return repr(layer).replace("\n", "")


@torch.no_grad()
def _tried(layer: nn.Module, value: torch.Tensor) -> torch.Tensor | None:
    """The layer's result, or None if it does not fit or is too large or not finite."""
    try:
        found = layer(value)
    except (RuntimeError, ValueError, IndexError, AssertionError):
        return None
    kept = found.ndim == value.ndim and 0 < found.numel() <= MOST_NUMBERS
    return found if kept and found.dtype is torch.float32 and found.isfinite().all() else None
