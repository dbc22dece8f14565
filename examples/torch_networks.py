"""Three PyTorch networks on NNAPI: for sound, for objects in pictures, and for text of any length.

    python examples/torch_networks.py

The detector needs torchvision and is left out without it. The weights are random.
"""

import torch
from torch import nn

from ep_nnapi.torch import to_nnapi


class AudioClassifier(nn.Module):
    """M5 of Dai and others (2016) at a quarter of its width: waveforms [N, 1, S] to 35 commands."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(1, 8, 80, 16), (8, 8, 3, 1), (8, 16, 3, 1), (16, 16, 3, 1)]
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Conv1d(a, b, k, s), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(4))
                for a, b, k, s in sizes
            )
        )
        self.classify = nn.Linear(16, 35)

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Logarithms of the commands' probabilities."""
        return self.classify(self.blocks(waveform).mean(-1)).log_softmax(-1)


class Detector(nn.Module):
    """A one-shot detector on a grid, with non-maximum suppression: boxes [K, 4] and scores [K]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 4, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()
        )
        self.heads = nn.Conv2d(32, 5, 1)

    def forward(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`picture` [1, 3, H, W]."""
        found = self.heads(self.features(picture)).flatten(2)[0].T
        scores, corner = found[:, 0].sigmoid(), found[:, 1:3].sigmoid() * 64
        boxes = torch.cat([corner, corner + found[:, 3:].exp() * 8], 1)
        kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
        return boxes[kept], scores[kept]


def audio() -> float:
    """The largest difference on a second of sound."""
    model, sound = AudioClassifier().eval(), torch.randn(1, 1, 16000)
    converted = to_nnapi(model, sound)
    print(f"audio: {converted.report.summary}")
    return difference(model, converted, sound)


def encoder() -> float:
    """The largest difference on texts of several lengths, by one converted module."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    length = torch.export.Dim("length", min=2, max=64)
    converted = to_nnapi(model, torch.randn(1, 12, 32), dynamic_shapes=({1: length},))
    print(f"encoder: {converted.report.summary}")
    return max(difference(model, converted, torch.randn(1, n, 32)) for n in (5, 12, 40))


def detector() -> float:
    """The largest difference of boxes and scores; NNAPI has no non-maximum suppression."""
    model, picture = Detector().eval(), torch.randn(1, 3, 64, 64)
    converted = to_nnapi(model, picture)
    print(f"detector: {converted.report.summary}")
    for refused in converted.report.rejections:
        print(f"  on the CPU: {refused.op_type}")
    return difference(model, converted, picture)


def difference(model: nn.Module, converted: nn.Module, *args: torch.Tensor) -> float:
    """Largest difference between results, relative to the largest number of each."""
    expected, found = model(*args), converted(*args)
    if isinstance(expected, torch.Tensor):
        expected, found = (expected,), (found,)
    pairs = zip(found, expected, strict=True)
    return max(float((f - e).abs().max() / e.abs().max()) for f, e in pairs)


def main() -> float:
    """The largest difference from eager PyTorch, relative to the largest number of a result."""
    torch.manual_seed(0)
    networks = [audio, encoder]
    try:
        import torchvision  # noqa: F401  # brings the operator nms
    except (ImportError, RuntimeError):  # RuntimeError: built for another PyTorch
        print("torchvision is not installed for this PyTorch: no detector")
    else:
        networks.append(detector)
    with torch.no_grad():
        worst = max(run() for run in networks)
    print("all within 1e-5 of eager PyTorch" if worst <= 1e-5 else f"difference {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
