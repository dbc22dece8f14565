"""Networks as they are used, on both roads: results of eager PyTorch, and the share on NNAPI.

Networks of torchvision and transformers have random weights and are skipped where these packages
are not installed. The shares are printed at the end of a run.
"""

import logging
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from ep_nnapi.torch import to_nnapi  # noqa: E402
from tests.torch.conftest import SHARE  # noqa: E402
from tests.torch.networks import agrees  # noqa: E402
from tests.torch.zoo import NETWORKS  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.long]
TOLERANCE = 1e-4
"""Of the largest number of a result: float32 sums in another order, up to 120 layers deep."""
LEAST_SHARE = 0.8
"""Of the nodes; those left to the CPU are non-maximum suppression and INT64 arithmetic."""


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> tuple[str, object, tuple[object, ...], object]:
    """Name, module, arguments and eager results."""
    torch.manual_seed(0)
    found = NETWORKS[request.param]()
    module = found.trained()
    with torch.no_grad():
        return request.param, module, found.args, module(*found.args)


def test_to_nnapi(network, record_property):
    name, module, args, expected = network
    converted = to_nnapi(module, args)
    report = converted.report
    refusals = sorted({f"{r.op_type}: {r.detail}" for r in report.rejections})
    share = f"to_nnapi {name}: {report.taken} of {report.nodes} nodes on NNAPI"
    record_property(SHARE, "\n  ".join([share, *refusals]))
    assert all(refused.detail for refused in report.rejections)
    assert report.taken >= LEAST_SHARE * report.nodes
    agrees(converted(*args), expected, TOLERANCE)


@pytest.fixture
def _traceable():
    """Recurrent layers are compiled, and encoders without PyTorch's fused kernel for them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    with torch._dynamo.config.patch(allow_rnn=True):
        yield
    torch.backends.mha.set_fastpath_enabled(before)


@torch.no_grad()
@pytest.mark.usefixtures("_traceable")
def test_compile(network, caplog, record_property):
    name, module, args, expected = network
    torch._dynamo.reset()
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        found = torch.compile(module, backend="ep_nnapi")(*args)
    torch._dynamo.reset()
    graphs = re.findall(r"NNAPI takes (\d+) of (\d+) nodes", caplog.text)
    taken, nodes = (sum(map(int, column)) for column in zip(*graphs, strict=True))
    graphs_of = f"{len(graphs)} graph{'s' if len(graphs) > 1 else ''}"
    record_property(SHARE, f"compile {name}: {taken} of {nodes} nodes on NNAPI in {graphs_of}")
    assert "runs in PyTorch" not in caplog.text
    assert taken >= LEAST_SHARE * nodes
    agrees(found, expected, TOLERANCE)
