"""With USE_FP16, zeros and large numbers give what they do in float32: constants fit float16."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.sessions.cpu import session_of
from tests.onnx_backend.delegation import provider_session
from tests.onnx_backend.trial import quiet

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
    x, y = map(helper.make_tensor_value_info, "xy", [TensorProto.FLOAT] * 2, shapes)
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"])], "g", [x], [y])
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    (want,) = session_of(model, quiet()).run(None, {"x": given})
    options = {"flags": "USE_FP16", "feature_level": level}
    with provider_session(model, quiet(), options) as (session, found):
        (got,) = session.run(None, {"x": given})
        taken = found().report.taken
        assert taken or level < 8
        if taken and op_type == "ReduceLogSumExp":  # ORT 1.25 gave NaN for infinities
            want = np.logaddexp.reduce(given.astype(np.float64), keepdims=True)
        np.testing.assert_allclose(got, want, rtol=4e-3)
