"""Stock PyTorch on NNAPI: a MobileNetV2-like network is converted, saved, loaded, run and compared.

    python examples/torch_nnapi.py

PyTorch opens `libneuralnetworks.so` by that name; a library of the name that is loaded already is
the one it gets.
"""

import ctypes
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.backends._nnapi.prepare import convert_model_to_nnapi

import ep_nnapi

BLOCKS = ((16, 1, 1), (24, 6, 2), (24, 6, 1), (32, 6, 2), (32, 6, 1), (64, 6, 2), (64, 6, 1))
"""Channels, expansion, stride."""
CLASSES = 10


def convolution(
    channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Module:
    """Convolution and batch norm, which freezing folds into it."""
    return nn.Sequential(
        nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    )


def relu6(x: torch.Tensor) -> torch.Tensor:
    """In the form that PyTorch's converter knows."""
    return nn.functional.hardtanh(x, 0.0, 6.0)


class InvertedResidual(nn.Module):
    """Expand, convolve each channel, project; added to the input where the shapes allow."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.expand = convolution(channels, wide, 1)
        self.depthwise = convolution(wide, wide, 3, stride, groups=wide)
        self.project = convolution(wide, out, 1)
        self.residual = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [N, C, H, W]."""
        y = relu6(self.expand(x))
        y = self.project(relu6(self.depthwise(y)))
        return x + y if self.residual else y


class SmallMobileNetV2(nn.Module):
    """Images [N, 3, H, W] to scores [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = convolution(3, 16, 3, stride=2)
        channels = [16, *(out for out, _, _ in BLOCKS)]
        self.blocks = nn.Sequential(
            *(
                InvertedResidual(before, out, expansion, stride)
                for before, (out, expansion, stride) in zip(channels, BLOCKS, strict=False)
            )
        )
        self.last = convolution(channels[-1], 128, 1)
        self.classifier = nn.Linear(128, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [N, 3, H, W]."""
        x = relu6(self.first(x))
        x = relu6(self.last(self.blocks(x)))
        return self.classifier(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def convert(model: nn.Module, example: torch.Tensor) -> torch.nn.Module:
    """The model for NNAPI; `example` stands for the inputs, in channels-last as NNAPI likes it."""
    example = example.contiguous(memory_format=torch.channels_last)
    example.nnapi_nhwc = True
    return convert_model_to_nnapi(torch.jit.trace(model, example), example)


def main() -> float:
    """The largest difference between NNAPI and eager PyTorch, relative to the largest score."""
    ctypes.CDLL(ep_nnapi.libneuralnetworks_path())
    torch.manual_seed(0)
    model, image = SmallMobileNetV2(), torch.randn(1, 3, 64, 64)
    for _ in range(20):  # stands for training: batch norm gathers its statistics
        model(torch.randn(16, 3, 64, 64))
    model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "mobilenet_nnapi.pt")
        convert(model, image).save(path)
        loaded = torch.jit.load(path)
        eager, nnapi = model(image), loaded(image)
    difference = float((eager - nnapi).abs().max() / eager.abs().max())
    print(f"eager  {[round(score, 4) for score in eager[0].tolist()]}")
    print(f"NNAPI  {[round(score, 4) for score in nnapi[0].tolist()]}")
    print(f"largest difference {difference:.1e} of the largest score")
    return difference


if __name__ == "__main__":
    main()
