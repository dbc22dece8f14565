"""Arguments of Dynamo's graphs, told apart."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from ep_nnapi import ModelError  # noqa: E402
from ep_nnapi.torch.inference_graph import (  # noqa: E402
    InferenceGraph,
    inference_graph,
    selector,
)
from tests.torch.networks import IMAGE, agrees, seeded, small_cnn  # noqa: E402

pytestmark = pytest.mark.torch


def captured(function: object, *args: object) -> tuple[InferenceGraph, list[object]]:
    """The captured graph of this call, its parts, and the arguments."""
    found = []

    def backend(graph, examples):
        found.append((inference_graph(graph), examples))
        return graph.forward

    torch._dynamo.reset()
    try:
        with torch.no_grad():
            torch.compile(function, backend=backend, dynamic=True)(*args)
    finally:
        torch._dynamo.reset()
    return found[-1]


def test_weights_sizes_and_inputs():
    """Weights: two of the convolution and of the linear layer, four of the batch norm.

    Dynamo passes its momentum and eps as tensors.
    """
    module, image = small_cnn(), seeded(2, *IMAGE[1:])
    graph, arguments = captured(module, image)
    assert len(graph.weights) == 8
    assert graph.numbers_of(arguments) == (0.1, 1e-5)
    (position,) = graph.inputs
    assert torch.equal(arguments[position], image)
    assert set(graph.sizes.values()) <= {(position, d) for d in range(4)}
    assert 0 in graph.dynamic_shapes[0]
    with torch.no_grad():
        (found,) = graph.module(arguments)(image)
        agrees(found, module(image))


def test_numbers_that_are_no_sizes():
    graph, arguments = captured(lambda x, k: x * k, seeded(2, 3), 5)
    assert graph.numbers_of(arguments) == (5,)
    assert len(graph.inputs) == 1


@torch.no_grad()
def test_symbolic_strides_are_numbers(caplog: pytest.LogCaptureFixture):
    """Dynamo passes a stride that varies as a symbol while it compiles."""
    run = torch.compile(lambda x: torch.as_strided(x, (2, 2), (1, 1)) * 2, backend="ep_nnapi")
    x = seeded(2, 3)
    for given in (x, x[1:], x.t()):
        agrees(run(given), torch.as_strided(given, (2, 2), (1, 1)) * 2)
    assert "needs a contiguous tensor" in caplog.text


def test_a_size_that_must_not_vary():
    graph, arguments = captured(lambda x: x + 1, seeded(2, 3))
    fixed = torch.export.export(graph.module(arguments), (seeded(2, 3),), strict=False)
    with pytest.raises(ModelError, match=r"dimension 0 of .* varies, .* must be 2"):
        graph.require_symbolic(fixed)


@pytest.mark.parametrize("positions", [(), (1,), (2, 0)])
def test_selector(positions: tuple[int, ...]):
    assert selector(positions)("abc") == tuple("abc"[i] for i in positions)
