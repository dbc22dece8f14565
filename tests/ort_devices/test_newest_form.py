"""Operators of every schema give the CPU provider's NaN, infinities and signs of zero."""

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.ort_devices.composites import RULES
from ep_nnapi.ort_devices.newest_form import SPECIAL, has_newest_form
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_backend.trial import quiet

INF, NAN = float("inf"), float("nan")
VALUES = np.array([1.5, -0.0, NAN, INF, -INF, -2, 3e38, 0.0, 3e38, 1e-40, 7, -3e38], np.float32)
SHAPE = (1, 2, 2, 3)

CASES = {
    "Clip-6": (10, "y = Clip <min = 0.0> (x)"),
    "Clip-13": (13, "y = Clip(x, low)"),
    "ArgMin-1": (10, "i = ArgMin <axis = 3> (x) y = Cast <to = 1> (i)"),
    "CumSum-11": (11, "y = CumSum(x, axis)"),
    "GlobalMaxPool-1": (13, "y = GlobalMaxPool(x)"),
    "Hardmax-13": (13, "y = Hardmax <axis = 3> (x)"),
    "LpNormalization-1": (13, "y = LpNormalization <axis = 3> (x)"),
    "ReduceL2-1": (10, "y = ReduceL2 <axes = [3]> (x)"),
    "ReduceLogSumExp-13": (13, "y = ReduceLogSumExp <axes = [2, 3]> (x)"),
    "RoiAlign-10": (
        10,
        "y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (x, regions, zero)",
    ),
    "Round-11": (11, "y = Round(x)"),
    "Selu-6": (13, "y = Selu(x)"),
    "Sinh-9": (13, "y = Sinh(x)"),
    "TopK-1": (9, "y, i = TopK <k = 2> (x) j = Cast <to = 1> (i)"),
    "TopK-11": (11, "y, i = TopK(x, two)"),
}
CONSTANTS = """
    float low = {0.0}, int64 axis = {3}, int64[1] zero = {0}, int64[1] two = {2},
    float[1, 4] regions = {0, 0, 2, 1}
"""


@pytest.mark.parametrize("name", CASES)
def test_special_values_are_the_cpu_providers(name: str) -> None:
    opset, text = CASES[name]
    source = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[1, 2, 2, 3] x) => (float[] y)'
    model = onnx.parser.parse_model(f"{source} <{CONSTANTS}> {{ {text} }}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    content = model.SerializeToString()
    given = {"device": "host-cpu", "partitioning": "maximal"}
    session = nnapi_session(content, severity=4, attributes={"intra_op_num_threads": 1}, **given)
    plain = session_of(content, quiet())
    for seed in range(8):
        feeds = {"x": np.random.default_rng(seed).permutation(VALUES).reshape(SHAPE)}
        (got,), (want,) = (each.run(["y"], feeds) for each in (session, plain))
        np.testing.assert_array_equal(got, want)
        zeros = want == 0
        np.testing.assert_array_equal(np.signbit(got)[zeros], np.signbit(want)[zeros])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert cluster["device_runs"] == cluster["runs"] == 8


def test_no_operator_has_two_rules() -> None:
    assert all(RULES[name].accepts is has_newest_form for name in SPECIAL)
