"""Stock PyTorch on NNAPI in 8 bits: eager-mode quantization, as in PyTorch's NNAPI tutorial.

    python examples/torch_nnapi_8_bits.py

Modules of this kind have a way of their own, `torch.backends._nnapi`: torch.export takes none.
"""

import ctypes

import torch
from torch import nn
from torch.ao import quantization
from torch_nnapi import convert

import ep_nnapi


class Residual(nn.Module):
    """A convolution of each channel and one across them, added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.ReLU()
        )
        self.across = nn.Conv2d(channels, channels, 1)
        self.sum = torch.ao.nn.quantized.FloatFunctional()  # so that the sum is quantized too

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [N, channels, H, W]."""
        return self.sum.add(x, self.across(self.each(x)))


def network() -> nn.Module:
    """Images [N, 3, H, W] to scores [N, 10]."""
    first = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU())
    last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(first, Residual(16), Residual(16), last).eval()


def quantized(model: nn.Module, image: torch.Tensor) -> nn.Module:
    """The model in 8 bits, with float32 scores; an image shows the ranges of its results."""
    wrapped = quantization.QuantWrapper(model)
    wrapped.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(wrapped)
    prepared(image)
    return quantization.convert(prepared)


def main() -> float:
    """The largest difference between NNAPI and eager PyTorch, relative to the largest score."""
    ctypes.CDLL(ep_nnapi.libneuralnetworks_path())
    torch.backends.quantized.engine = "qnnpack"
    torch.manual_seed(0)
    image = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        in_8_bits = quantized(network(), image)
        nnapi = convert(in_8_bits, image)
        eager = in_8_bits(image)
        difference = float((eager - nnapi(image)).abs().max() / eager.abs().max())
    print(f"largest difference {difference:.1%} of the largest score")
    return difference


if __name__ == "__main__":
    main()
