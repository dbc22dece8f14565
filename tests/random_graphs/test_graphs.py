"""Random graphs of all operators compute on the provider what they do on the CPU provider.

A gate gives the same answer twice, so the seeds are the same each time and printed; EP_NNAPI_SEED
begins elsewhere, and `python -m tests.random_graphs --seed N --count 1` repeats one graph.
"""

import os

import pytest

from ep_nnapi.ops import OPS
from tests.random_graphs.recipes import CONTRIBUTED, RECIPES
from tests.random_graphs.suite import run
from tests.random_graphs.trial import draw

# What needs more than ONNX's shape inference and a random number to be drawn.
NOT_DRAWN = {
    "DequantizeLinear": "quantized operators have suites of their own",
    "QuantizeLinear": "quantized operators have suites of their own",
    "FusedConv": "ONNX Runtime's own optimizer makes it",
    "FusedGemm": "ONNX Runtime's own optimizer makes it",
    "FusedMatMul": "ONNX Runtime's own optimizer makes it",
    "SkipLayerNormalization": "ONNX Runtime's own optimizer makes it",
    "SkipSimplifiedLayerNormalization": "ONNX Runtime's own optimizer makes it",
    "SimplifiedLayerNormalization": "ONNX has no schema of it",
}


@pytest.mark.parametrize("count", [150, pytest.param(2500, marks=pytest.mark.long)])
def test_graphs_match_the_cpu(count: int) -> None:
    first = int(os.environ.get("EP_NNAPI_SEED", "200000"))
    tally = run(range(first, first + count))
    report = "\n".join(tally.lines())
    assert not tally.failures, report
    # the CPU provider takes nearly all; where it does not, nothing was tested
    assert tally.ended["same"] > 0.9 * count, report


def test_every_operator_is_drawn() -> None:
    quantized = ("QLinear", "QGemm", "QAttention", "Dynamic", "ConvInteger", "MatMulInteger")
    floats = {o.op_type for o in OPS if not o.op_type.startswith(quantized)}
    assert floats - RECIPES.keys() - CONTRIBUTED.keys() - NOT_DRAWN.keys() == set()


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_one_graph(seed: int) -> None:
    one, two = draw(seed), draw(seed)
    assert one.model.SerializeToString() == two.model.SerializeToString()
    assert one.options == two.options
    assert all((one.feeds[n] == two.feeds[n]).all() for n in one.feeds)
