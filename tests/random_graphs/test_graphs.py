"""Random graphs of all operators compute on the provider what they do on the CPU provider.

A gate gives the same answer twice, so the seeds are the same each time and printed; EP_NNAPI_SEED
begins elsewhere, and `python -m tests.random_graphs --seed N --count 1` repeats one graph.
"""

import os
from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.operators import OPS
from tests.random_graphs.recipes import CONTRIBUTED, RECIPES
from tests.random_graphs.suite import run
from tests.random_graphs.trial import attempt, draw
from tests.random_graphs.values import Values

# What needs more than ONNX's shape inference and a random number to be drawn.
NOT_DRAWN = {
    "DequantizeLinear": "quantized operators have suites of their own",
    "GatherBlockQuantized": "quantized operators have suites of their own",
    "MatMulNBits": "quantized operators have suites of their own",
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


@pytest.mark.parametrize("values", [Values.SPECIAL, Values.HUGE])
@pytest.mark.parametrize("count", [60, pytest.param(2500, marks=pytest.mark.long)])
def test_special_values_differ_as_listed_only(values: Values, count: int) -> None:
    first = int(os.environ.get("EP_NNAPI_SEED", "300000"))
    tally = run(range(first, first + count), values)
    report = "\n".join(tally.lines())
    assert not tally.failures, report
    assert tally.ended["same"] > 0.8 * count, report


def test_a_cause_is_known_beside_what_results_may_differ_by() -> None:
    """x acosh(x) overflows in half precision; the logarithm of 0.988 has less than two digits."""
    (cause,) = attempt(414, Values.SPECIAL).causes
    assert "infinite beyond 65504" in cause


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
    for values in (Values.SPECIAL, Values.HUGE):
        feeds = [draw(seed, values).feeds for _ in range(2)]
        assert all(feeds[0][n].tobytes() == feeds[1][n].tobytes() for n in one.feeds)


def test_special_values_are_fed() -> None:
    def share(values: Values, what: Callable[[np.ndarray], np.ndarray]) -> float:
        feeds = (a for seed in range(50) for a in draw(seed, values).feeds.values())
        floats = [a for a in feeds if a.dtype.kind == "f" and a.size]
        return float(np.mean([bool(what(a).any()) for a in floats]))

    def huge(array: np.ndarray) -> np.ndarray:
        return np.isfinite(array) & (np.abs(array) > 1000)

    assert share(Values.SPECIAL, np.isnan) > 0.05
    assert share(Values.SPECIAL, np.isinf) > 0.1
    assert share(Values.HUGE, huge) > 0.5
    assert share(Values.ORDINARY, huge) == share(Values.ORDINARY, np.isnan) == 0
