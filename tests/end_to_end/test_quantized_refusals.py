"""Quantizations that NNAPI has not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from tests.end_to_end.quantized import node
from tests.end_to_end.test_quantized_forms import REAL, SHAPE, U8, Form, assert_same


def pair(**attributes: object) -> list[onnx.NodeProto]:
    """A Relu between quantizations by `r` and `rz`."""
    return [
        node("QuantizeLinear", "f r rz", "b", **attributes),
        node("DequantizeLinear", "b r rz", "db", **attributes),
        node("Relu", "db", "c"),
        node("QuantizeLinear", "c r rz", "y", **attributes),
    ]


def around(kind: int, scale: object, zero: object, **attributes: object) -> Form:
    """`pair` with these quantizations; without the last where numpy has not the type."""
    constants = {"r": np.float32(scale), "rz": zero}
    nodes, outputs = pair(**attributes), {"y": kind}
    if isinstance(zero, onnx.TensorProto):
        nodes, outputs = nodes[:-1], {"c": REAL}
    return Form(nodes, outputs, {"f": (REAL, SHAPE)}, constants)


EIGHT_BITS = "NNAPI computes with 8 bits: quantize to UINT8 or INT8"
REFUSED = {
    "INT16": (around(TensorProto.INT16, 1e-3, np.int16(0)), "DTYPE", EIGHT_BITS),
    "UINT16": (around(TensorProto.UINT16, 1e-3, np.uint16(9)), "DTYPE", EIGHT_BITS),
    "UINT4": (
        around(TensorProto.UINT4, 0.3, helper.make_tensor("rz", TensorProto.UINT4, (), [7])),
        "DTYPE",
        EIGHT_BITS,
    ),
    "FLOAT8": (
        around(
            TensorProto.FLOAT8E4M3FN,
            0.3,
            helper.make_tensor("rz", TensorProto.FLOAT8E4M3FN, (), [0]),
        ),
        "DTYPE",
        EIGHT_BITS,
    ),
    "activations by block": (
        around(U8, np.full((1, 1, 6, 6), 0.1), np.full((1, 1, 6, 6), 3, np.uint8), block_size=4),
        "QUANTIZATION",
        "has a scale for each block of 4; quantize per channel or per tensor",
    ),
    "activations by channel": (
        around(U8, [0.1, 0.2, 0.3, 0.4], np.uint8([1, 2, 3, 4]), axis=1),
        "QUANTIZATION",
        "has per-channel scales",
    ),
    "no scale": (around(U8, 0, np.uint8(1)), "QUANTIZATION", "has the scale 0; NNAPI's are"),
    "a negative scale": (around(U8, -1, np.uint8(1)), "QUANTIZATION", "has the scale -1"),
    "a denormal scale": (around(U8, 1e-40, np.uint8(1)), "QUANTIZATION", "at least 1.2e-38"),
    "an infinite scale": (around(U8, np.inf, np.uint8(1)), "QUANTIZATION", "a finite number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nnapi_has_not_is_refused_in_one_line(name: str) -> None:
    form, reason, detail = REFUSED[name]
    built = form.model()
    report = ep_nnapi.check(built.SerializeToString())
    own = [r for r in report.rejections if not r.detail.startswith("in the QDQ group of")]
    assert own
    for refusal in own:
        assert refusal.reason == reason
        assert detail in refusal.detail
        assert "\n" not in refusal.detail
    assert_same(built)
