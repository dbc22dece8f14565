"""Small PyTorch modules for tests."""

from dataclasses import dataclass

import torch
from torch import nn

IMAGE = (1, 3, 8, 8)


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function, **submodules):
        super().__init__()
        self.function = function
        for name, module in submodules.items():
            self.add_module(name, module)

    def forward(self, *args):
        return self.function(*args)


class Nested(nn.Module):
    """Takes and returns nested containers; some leaves are no tensors."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, scale, flag=True, *, given):
        y = self.linear(x) * scale
        return {
            "pair": Pair(y + 1, given["a"][0]),
            "rest": [None, 3, flag, "text", y.shape[0], (y, x, y.sum())],
        }


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 2),
    ).eval()  # fmt: skip


def seeded(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def agrees(found: object, expected: object, tolerance: float = 1e-5) -> None:
    """Same structure, types and values; tensors within `tolerance` of their largest element."""
    assert type(found) is type(expected), (type(found), type(expected))
    found_leaves, found_spec = torch.utils._pytree.tree_flatten(found)
    leaves, spec = torch.utils._pytree.tree_flatten(expected)
    assert found_spec == spec
    for one, other in zip(found_leaves, leaves, strict=True):
        if not isinstance(other, torch.Tensor):
            assert (type(one), one) == (type(other), other)
            continue
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        scale = float(other.abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * scale)
