"""The known differences: which operators and values have them, and that `compare` tells them."""

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.special_values import KNOWN, known_differences
from ep_nnapi.operators import VARIANTS
from tests.onnx_graph import parsed

INF, NAN = float("inf"), float("nan")


def causes(op_type: str, *numbers: float, half: bool = False) -> str:
    operand = np.array([1.0, *numbers], np.float32)
    return " ".join(k.cause for k in known_differences([op_type], [operand], half=half))


def test_the_list_is_short_and_has_sources() -> None:
    assert len(KNOWN) <= 10
    assert all(k.source for k in KNOWN)
    known = {op_type for _, op_type in VARIANTS}
    assert all(k.op_types <= known for k in KNOWN)


@pytest.mark.parametrize(
    ("op_type", "within", "past", "cause"),
    [
        ("Clip", 3.4e38, INF, "limits an open end to the largest number"),
        ("MaxPool", INF, NAN, "order of NaN"),
        ("CumSum", 1e9, -INF, "zero times infinity"),
        ("Gemm", 1.8e19, 1.9e19, "order of sums"),
        ("Asinh", 1.8e19, 1.9e19, "what computes it overflows"),
        ("Cast", 2147483520.0, 2147483648.0, "the integer of NaN"),
        ("Cast", -1.0, NAN, "the integer of NaN"),
    ],
)
def test_values_at_the_limit_and_past_it(
    op_type: str, within: float, past: float, cause: str
) -> None:
    assert cause not in causes(op_type, within)
    assert cause in causes(op_type, past)
    assert cause not in causes("Identity", past)


@pytest.mark.parametrize(("within", "past"), [(255.0, 257.0), (6.2e-5, 6e-5)])
def test_numbers_that_float16_lacks(within: float, past: float) -> None:
    assert not causes("Abs", 0.0, within, half=True)
    assert not causes("Abs", past)
    assert "float16" in causes("Abs", past, half=True)


@pytest.mark.parametrize("past", [2049.0, 1e-3, 1e5])
def test_numbers_that_float16_does_not_tell_apart(past: float) -> None:
    assert "tell apart" not in causes("Equal", 2048.0, -0.0, NAN, INF, half=True)
    assert "tell apart" in causes("Equal", past, half=True)
    assert not causes("Equal", past)


def test_integers_have_none() -> None:
    assert not known_differences(["Gemm"], [np.array([1 << 30])], half=False)


@pytest.mark.parametrize(("number", "told"), [(INF, True), (3e38, False)])
def test_compare_tells_the_cause(number: float, told: bool) -> None:
    """Of Relu as of Clip with a lower end, infinity differs and the largest numbers do not."""
    model = parsed("(float[3] x) => (float[3] y) { y = Clip <min = 0.0> (x) }", 10, 8)
    found = ep_nnapi.compare(
        model.SerializeToString(), {"x": np.array([number, -1, 1], np.float32)}, by_node=True
    )
    (node,) = found.nodes.values()
    assert ("A known difference: ONNX's Clip" in node.verdict.note) == told
    assert found.negative == told
