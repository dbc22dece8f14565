"""Modules that torchao's PT2E flow has quantized arrive as quantized NNAPI operations."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pt2e = pytest.importorskip(
    "torchao.quantization.pt2e.quantize_pt2e", reason="torchao is not installed"
)

from torch import nn  # noqa: E402

from ep_nnapi.diagnostics.check import partitioned  # noqa: E402
from ep_nnapi.nnapi.model import Model  # noqa: E402
from ep_nnapi.torch import NnapiModule, load, to_nnapi  # noqa: E402
from tests.torch.networks import seeded  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SHAPE = (2, 3, 16, 16)
QUANTIZED = {"TENSOR_QUANT8_ASYMM", "TENSOR_QUANT8_ASYMM_SIGNED"}


class Network(nn.Module):
    """Convolutions of each kind, an addition, pools and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6())
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.classify = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image)
        x = nn.functional.max_pool2d(x + self.pointwise(self.depthwise(x)), 2)
        return self.classify(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def symmetric(per_channel: bool) -> object:
    """The quantizer that PyTorch's tutorials name, as torchao ships it for its own tests."""
    found = pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer")
    config = found.get_symmetric_quantization_config(is_per_channel=per_channel)
    return found.XNNPACKQuantizer().set_global(config)


def x86() -> object:
    found = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    config = found.get_default_x86_inductor_quantization_config()
    return found.X86InductorQuantizer().set_global(config)


QUANTIZERS = {
    "per channel": lambda: symmetric(True),
    "per tensor": lambda: symmetric(False),
    "X86Inductor": x86,
}


@torch.no_grad()
def quantized(quantizer: object) -> torch.fx.GraphModule:
    """The network, quantized after it has seen two batches."""
    torch.manual_seed(0)
    exported = torch.export.export(Network().eval(), (seeded(*SHAPE),)).module()
    prepared = pt2e.prepare_pt2e(exported, quantizer)
    for seed in (1, 2):
        prepared(seeded(*SHAPE, seed=seed))
    return pt2e.convert_pt2e(prepared)


def kinds(converted: NnapiModule) -> list[tuple[str, bool]]:
    """Each operation with weights, and whether its input is quantized."""
    provider = partitioned(converted._program)
    models: list[Model] = [model for cluster in provider.clusters for model in cluster.models]
    return [
        (operation.spec.name, model.operands[operation.inputs[0]].type.name in QUANTIZED)
        for model in models
        for operation in model.operations
        if operation.spec.name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    ]


@pytest.mark.parametrize("name", QUANTIZERS)
def test_results_and_operations(name: str):
    """Within two quanta of the result: a sum may round either way in two places.

    X86InductorQuantizer leaves results of layers in floats that feed an addition or nothing, so
    there the last two layers compute in floats on NNAPI.
    """
    module = quantized(QUANTIZERS[name]())
    converted, batch = to_nnapi(module, seeded(*SHAPE)), seeded(*SHAPE, seed=3)
    with torch.no_grad():
        expected = module(batch)
    assert converted.report.taken == converted.report.nodes
    quantum = float(expected.max() - expected.min()) / 255
    assert float((converted(batch) - expected).abs().max()) <= 2 * quantum
    found = [quantized for _, quantized in kinds(converted)]
    assert found == [True, True, False, False] if name == "X86Inductor" else all(found)
    assert len(found) == 4


def test_saved_and_loaded(tmp_path):
    converted = to_nnapi(quantized(symmetric(True)), seeded(*SHAPE))
    converted.save(tmp_path / "net.onnx")
    batch = seeded(*SHAPE, seed=3)
    assert torch.equal(load(tmp_path / "net.onnx")(batch), converted(batch))
