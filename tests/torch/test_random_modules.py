"""Random modules of common layers by `to_nnapi`: the results of eager PyTorch.

The seed of a module is its test's name; -rP prints its layers.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from ep_nnapi import ModelError  # noqa: E402
from ep_nnapi.torch import to_nnapi  # noqa: E402
from tests.torch.random_modules import drawn  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.long]
TOLERANCE = 1e-4
"""Of the largest number, at least 1: float32 sums in another order, six layers deep."""


NOT_EXPORTED = 8
"""A seed with an operator that PyTorch's ONNX exporter does not know."""


@torch.no_grad()
@pytest.mark.parametrize("seed", [seed for seed in range(12) if seed != NOT_EXPORTED])
def test_agrees_with_eager(seed: int):
    found = drawn(seed)
    print(f"seed {seed}: {found.names}")  # noqa: T201
    expected = found.module(found.given)
    result = to_nnapi(found.module, found.given)(found.given)
    assert result.dtype is expected.dtype
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(result, expected, rtol=0, atol=TOLERANCE * scale)


def test_an_operator_that_is_not_exported():
    found = drawn(NOT_EXPORTED)
    with pytest.raises(ModelError, match=r"cannot convert aten\.adaptive_max_pool2d\.default in 4"):
        to_nnapi(found.module, found.given)
