"""torchvision without its compiled operators, as where its wheel was built for another PyTorch."""

from types import ModuleType

import pytest
import torch

_OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
_kept: list[object] = []


def torchvision() -> ModuleType:
    """torchvision; `nms` is defined in Python if its own is not there."""
    if not hasattr(torch.ops.torchvision, "nms") and not _kept:
        for name in ("nms", "qnms"):  # its import asks for both
            _OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _OPERATORS.impl("nms", nms, "CPU")
        _kept.append(nms)
    return pytest.importorskip("torchvision", reason="torchvision is not installed")


@torch.compiler.disable  # Dynamo does not look into a compiled operator either
def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices of boxes, best first, none of which overlaps a better one by more than the limit."""
    left, top, right, bottom = boxes.unbind(1)
    areas = (right - left) * (bottom - top)
    order, kept = scores.argsort(descending=True, stable=True).tolist(), []
    while order:
        best, *order = order
        kept.append(best)
        rest = torch.tensor(order, dtype=torch.int64)
        width = torch.minimum(right[best], right[rest]) - torch.maximum(left[best], left[rest])
        height = torch.minimum(bottom[best], bottom[rest]) - torch.maximum(top[best], top[rest])
        shared = width.clamp(min=0) * height.clamp(min=0)
        overlap = shared / (areas[best] + areas[rest] - shared)
        order = rest[overlap <= iou_threshold].tolist()
    return torch.tensor(kept, dtype=torch.int64)
