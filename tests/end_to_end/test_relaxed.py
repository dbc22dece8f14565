"""USE_FP16 on the host: rounded to float16 between operations or not, and right at its limits."""

from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_backend.trial import provider_session, quiet
from tests.onnx_graph import model_of, serialized
from tests.runtimes import host_only

DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"
SEED = 20261122
TIMES, PLUS, LESS = 3.3001, 1000.7, 17
"""No float16 but the last."""


def model() -> bytes:
    """y = (x * TIMES + PLUS) / x, and n + LESS of integers."""
    text = """(float[rows] x, int32[rows] n) => (float[rows] y, int32[rows] m) {
        product = Mul (x, times) sum = Add (product, plus) y = Div (sum, x) m = Add (n, less) }"""
    constants = {"times": np.float32([TIMES]), "plus": np.float32([PLUS]), "less": np.int32([LESS])}
    return serialized(text, **constants)


def halves(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.float16).astype(np.float32)


def formula(x: np.ndarray, rounded: bool) -> np.ndarray:
    """In float32, whose four rules of arithmetic are the same on every processor."""
    h = halves if rounded else np.float32
    x, times, plus = h(x), h(np.float32([TIMES])), h(np.float32([PLUS]))
    return h(h(h(x * times) + plus) / x)


@host_only
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "symbolic"])
@pytest.mark.parametrize(
    ("given", "rounded"),
    [
        ({}, False),
        ({"flags": "USE_FP16"}, True),
        ({"flags": "USE_FP16", "relaxed": "emulate"}, True),
        ({"flags": "USE_FP16", "relaxed": "precise"}, False),
        ({"relaxed": "emulate"}, False),
        ({"flags": "USE_FP16", "feature_level": 1}, False),  # which has no relaxed models
    ],
    ids=str,
)
def test_relaxed_float32_is_rounded_between_operations(given, rounded, fixed):
    """30000 times TIMES is more than float16 holds, and becomes infinity there."""
    x = np.random.default_rng(SEED).uniform(-40, 40, 500).astype(np.float32)
    x = np.append(x, np.float32([30000, -30000, 65504]))
    n = np.arange(len(x), dtype=np.int32) * 100_003
    sizes = {"fix": {"x": x.shape, "n": n.shape}} if fixed else {}
    session = nnapi_session(model(), **given, **sizes)
    y, m = session.run(None, {"x": x, "n": n})
    with np.errstate(over="ignore"):
        expected = formula(x, rounded)
    assert np.isinf(expected).any() == rounded
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(m, n + LESS)


@host_only
def test_run_previews_what_float16_costs():
    """Against the CPU provider, which computes in float32."""

    def worst(**options: object) -> float:
        return ep_nnapi.run(DIGITS, flags="USE_FP16", **options).worst

    assert worst(relaxed="precise") < 1e-6  # roundings of float32
    assert 1e-5 < worst() < 1e-2  # of float16, at each of eight layers


INF = float("inf")


@pytest.mark.parametrize("level", [1, 2, 8])
@pytest.mark.parametrize(
    ("op_type", "numbers"),
    [
        ("Sign", (0, -0.0, 2.0**-14, -3, 60000, INF, -INF)),
        ("Atan", (0, -1, 254, -300, 60000, INF, -INF)),
        ("Asinh", (0, -1, 254, -300, 60000, INF, -INF)),
        ("LpNormalization", (0, 0, 0)),
        ("ReduceLogSumExp", (-INF, -INF)),
        ("ReduceLogSumExp", (INF, 1)),
    ],
)
def test_results_are_those_of_float32(op_type: str, numbers: tuple[float, ...], level: int) -> None:
    given = np.array(numbers, np.float32)
    shapes = given.shape, (1,) if op_type.startswith("Reduce") else given.shape
    ends = {"x": shapes[0]}, {"y": shapes[1]}
    model = model_of(f"y = {op_type} (x)", *ends, opset=21).SerializeToString()
    (want,) = session_of(model, quiet()).run(None, {"x": given})
    options = {"flags": "USE_FP16", "feature_level": level}
    session, provider = provider_session(model, quiet(), options)
    (got,) = session.run(None, {"x": given})
    taken = provider.report.taken
    assert taken or level < 8
    if taken and op_type == "ReduceLogSumExp":  # ORT 1.25 gave NaN for infinities
        want = np.logaddexp.reduce(given.astype(np.float64), keepdims=True)
    np.testing.assert_allclose(got, want, rtol=4e-3)
