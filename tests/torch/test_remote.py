"""`to_nnapi` behind an agent: what the library gives, right or wrong."""

import pytest

import ep_nnapi
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from tests.native.build import needs_compiler
from tests.remote.agents import Reach
from tests.remote.conftest import built, reach

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from ep_nnapi.torch import to_nnapi  # noqa: E402

__all__ = ["built", "reach"]
pytestmark = [pytest.mark.torch, needs_compiler]


def test_a_module_behind_an_agent(reach: Reach) -> None:
    made = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    x = torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8)

    def computed(runtime: str) -> torch.Tensor:
        return to_nnapi(made, x, runtime=runtime, device=REFERENCE_DEVICE)(x)

    here = computed(ep_nnapi.libneuralnetworks_path())
    assert torch.equal(computed(reach()), here)
    assert (computed(reach(reach.bench.altered, WRONG="all")) - here).abs().min() > 0.5
