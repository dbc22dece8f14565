"""Modules of PyTorch's own NNAPI serializer through `to_nnapi`: every node is on NNAPI.

The modules are those of tests/capi, written after the kinds of modules in PyTorch's test_nnapi.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from ep_nnapi.torch import to_nnapi  # noqa: E402
from tests.capi import test_torch as serializer  # noqa: E402
from tests.torch.networks import Call, agrees, seeded  # noqa: E402

pytestmark = pytest.mark.torch

IMAGE = serializer.IMAGE
MODULES = {
    **serializer.FLOAT,
    "prelu each channel": (nn.PReLU(4), (IMAGE,)),
    "conv_transpose2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1), (IMAGE,)),
    "to": (Call(lambda x: x.to(torch.float32) + 1), (IMAGE,)),
    "squeeze and excitation": (
        Call(lambda x, pool: x * torch.sigmoid(pool.mean([2, 3], keepdim=True))),
        (IMAGE, IMAGE),
    ),
    "several outputs": (
        Call(lambda x: (torch.relu(x), nn.functional.adaptive_avg_pool2d(x, 1), [x - 1])),
        (IMAGE,),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_every_node_is_on_nnapi(name: str):
    """Within 1e-5 of the largest number: both compute in float32."""
    module, shapes = MODULES[name]
    torch.manual_seed(0)
    inputs = tuple(seeded(*shape, seed=n) for n, shape in enumerate(shapes))
    converted = to_nnapi(module.eval(), inputs)
    report = converted.report
    assert report.taken == report.nodes > 0, report.rejections
    with torch.no_grad():
        agrees(converted(*inputs), module(*inputs))
