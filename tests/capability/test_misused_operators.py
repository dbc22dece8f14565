"""Invalid models that ONNX Runtime loads: each node is refused with a reason, none as a defect."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from tests.onnx_graph import model_of, typed

MS = "com.microsoft"
NAN, INF = np.float32(np.nan), np.float32(np.inf)
ONE, U8 = np.float32(1), np.uint8(0)
CROP = {"coordinate_transformation_mode": "tf_crop_and_resize"}
RNN = {"hidden_size": 2}


class X:
    """An input of the graph, with its shape and type."""

    def __init__(self, *shape: int, type_: int = TensorProto.FLOAT) -> None:
        self.shape, self.type = shape, type_


def u8(*shape: int) -> X:
    return X(*shape, type_=TensorProto.UINT8)


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


IMAGE, FILTERS, LSTM = X(1, 2, 4, 4), f(2, 2, 3, 3), (X(2, 1, 3), f(1, 8, 3), f(1, 8, 2))
MISUSED = [
    ("group is 0; it must be positive", "Conv", IMAGE, FILTERS, {"group": 0}),
    ("group is -1; it must be positive", "Conv", IMAGE, FILTERS, {"group": -1}),
    ("in 3 groups does not fit", "Conv", IMAGE, FILTERS, {"group": 3}),
    ("in 1 groups does not fit", "Conv", X(1, 3, 4, 4), FILTERS, {}),
    ("windows of [3, 3]", "Conv", IMAGE, FILTERS, {"kernel_shape": [2, 2]}),
    ("does not fit INT32", "Conv", IMAGE, FILTERS, {"strides": [2**40, 2**40]}),
    ("is [3]; the bias of", "Conv", IMAGE, FILTERS, f(3), {}),
    ("is [0]; the bias of", "Conv", IMAGE, FILTERS, f(0), {}),
    ("is [1, 2]; the bias of", "Conv", IMAGE, FILTERS, f(1, 2), {}),
    ("is [9]; the bias of", "ConvTranspose", IMAGE, FILTERS, f(9), {}),
    (
        "rank",
        "ConvTranspose",
        X(1, 1, 3, 3),
        f(1, 2, 3, 3),
        {"strides": [3, 2], "output_shape": [10, 2]},
    ),
    ("has shape [1, 1]; it must be a scalar", "Clip", X(3), f(1, 1), {}),
    ("has a negative size", "MaxPool", IMAGE, {"kernel_shape": [2**31, 2**31]}),
    ("a norm has p > 0", "LpPool", IMAGE, {"kernel_shape": [2, 2], "p": 0}),
    ("roi has 2 numbers for 4 axes", "Resize", IMAGE, f(2), f(0), i(1, 2, 3, 3), CROP),
    ("roi is partly outside", "Resize", IMAGE, f(8) * NAN, f(0), i(1, 2, 3, 3), CROP),
    ("input 1 is missing", "Resize", IMAGE, None, f(0), i(1, 2, 3, 3), CROP),
    ("no elements", "Range", ONE, np.float32(5), np.float32(0), {}),
    ("no elements", "Range", ONE, np.float32(5), NAN, {}),
    ("does not fit INT32", "Slice", X(4, 4), i(3), i(-9), i(0), i(-(2**63)), {}),
    ("NNAPI's maximum", "Tile", X(2, 3), i(2**40, 2**40), {}),
    ("NNAPI's maximum", "Expand", X(2, 3), i(2**62, 2, 3), {}),
    ("NNAPI's maximum", "Pad", X(2, 3), i(2**62, 0, 0, 0), {}),
    ("negative size", "Pad", X(2, 3), i(-9, 0, 0, 0), {}),
    ("pads remove all elements", "Pad", X(2, 3), i(-2, 0, 3, 0), {"mode": "edge"}),
    ("negative size", "Split", X(6), i(-1, 7), {"outputs": 2}),
    ("parts have sizes [2, 2] of 6", "Split", X(6), {"outputs": 2, "num_outputs": 3}),
    ("does not permute", "Transpose", X(2, 3), {"perm": [0]}),
    ("keepdims is 64; ONNX has 0, 1", "ReduceMean", X(3, 2, 2), i(1), {"keepdims": 64}),
    ("6 elements do not fit (4, 4)", "Reshape", X(2, 3), i(4, 4), {}),
    ("index outside a dimension of 2", "Gather", X(2, 3), i(2**62), {}),
    ("index outside [2, 3]", "GatherND", X(2, 3), i(9, 9), {}),
    ("does not index", "GatherND", X(2, 3), i(0).reshape(1, 1), {"batch_dims": -1}),
    ("of [1] does not fit i0", "GatherElements", X(2, 3), i(0), {}),
    ("index outside [2]", "ScatterND", X(2, 3), i(-9).reshape(1, 1), f(1, 3), {}),
    ("0 indexes for rank 2", "ScatterND", X(2, 3), i().reshape(1, 0), f(1, 2, 3), {}),
    ("the indexes demand [1, 3]", "ScatterND", X(2, 3), i(0).reshape(1, 1), f(2, 3), {}),
    ("length outside 0 to 4", "ReverseSequence", X(4, 3), i(9, 9, 9), {}),
    ("2 lengths for a batch of 3", "ReverseSequence", X(4, 3), i(1, 1), {}),
    ("it must be one number", "CumSum", X(2, 3), i(), {}),
    ("it must be one number", "Trilu", X(2, 3), i(1, 1), {}),
    ("for 2 channels", "InstanceNormalization", X(1, 2, 3), f(0), f(0), {}),
    ("rank 4, for i0 of rank 2", "LayerNormalization", X(2, 3), f(1, 1, 2, 3), {}),
    ("axis is 9", "LpNormalization", X(2, 3), {"axis": 9}),
    ("axis is 9", "MeanVarianceNormalization", X(2, 3), {"axes": [9]}),
    ("do not broadcast", "PRelu", X(2, 3), f(0), {}),
    ("a limit is at least 0", "Shrink", X(2, 3), {"lambd": -1.0}),
    ("Celu divides by it", "Celu", X(2, 3), {"alpha": 0.0}),
    ("no multiple of 3", "SpaceToDepth", IMAGE, {"blocksize": 3}),
    ("the equation calls it", "Einsum", X(2, 3), {"equation": ""}),
    ("do not fit (3, 3)", "Einsum", X(2, 3), {"equation": "ij->jj"}),
    ("has the scale 0", "QuantizeLinear", X(2, 3), np.float32(0), U8, {}),
    ("has the scale nan", "QuantizeLinear", X(2, 3), NAN, U8, {}),
    ("has the scale inf", "QuantizeLinear", X(2, 3), INF, U8, {}),
    ("has the scale -1", "QuantizeLinear", X(2, 3), -ONE, U8, {}),
    ("no quantization parameters", "QuantizeLinear", X(2, 3), f(0), np.zeros(0, np.uint8), {}),
    ("no quantization parameters", "QuantizeLinear", X(2, 3), ONE, np.zeros(3, np.uint8), {}),
    ("no quantization parameters", "DequantizeLinear", u8(2, 3), f(4), np.zeros(4, np.uint8), {}),
    (
        "takes one number or 2",
        "MatMulInteger",
        u8(2, 3),
        np.ones((3, 2), np.uint8),
        f(7).astype(np.uint8),
        {},
    ),
    ("do not fit (2, 1, 1, 3)", "LSTM", *LSTM, {"hidden_size": 3}),
    ("it must be [1, 16]", "LSTM", *LSTM, f(1, 4), RNN),
    ("it must be [2, 8, 3]", "LSTM", *LSTM, RNN | {"direction": "bidirectional"}),
    ("sequences of [7] steps", "LSTM", *LSTM, None, np.array([7], np.int32), RNN),
    ("it must be [1, 1, 2]", "LSTM", *LSTM, None, None, f(1), f(1), f(1), RNN),
    ("it must be [1, 9, 3]", "GRU", X(2, 1, 3), f(1, 6, 3), f(1, 9, 3), RNN),
    ("i1 has rank 1; it must be 3", "RNN", X(2, 1, 3), f(2), f(1, 2, 2), RNN),
    ("does not broadcast to [2, 4]", "Gemm", X(2, 3), f(3, 4), f(1, 2, 4), {}),
    ("i1 has shape [4], i0 [2, 3]", "BiasGelu", X(2, 3), f(4), {"domain": MS}),
    ("use matrices", "FusedMatMul", X(3), f(3), {"domain": MS, "transA": 1}),
]
"""What is said, the operator, its inputs and its attributes."""


def model(op_type: str, *given: X | np.ndarray | np.generic | None, **attributes: object) -> bytes:
    """A node's model; its outputs are float, or uint8 for QuantizeLinear."""
    outputs = [f"o{n}" for n in range(attributes.pop("outputs", 1))]
    names = ["" if x is None else f"i{n}" for n, x in enumerate(given)]
    node = helper.make_node(op_type, names, outputs, "n", **attributes)
    named = [(name, x) for name, x in zip(names, given, strict=True) if x is not None]
    inputs = {n: typed(x.type, x.shape) for n, x in named if isinstance(x, X)}
    fixed = {n: x for n, x in named if not isinstance(x, X)}
    kinds = {"QuantizeLinear": TensorProto.UINT8, "MatMulInteger": TensorProto.INT32}
    kind = kinds.get(op_type, TensorProto.FLOAT)
    results = dict.fromkeys(outputs, typed(kind))
    made = model_of([node], inputs, results, fixed, 21, ir_version=9, domains={MS: 1})
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("said", "op_type", "given", "attributes"),
    [(said, op_type, given, last) for said, op_type, *given, last in MISUSED],
    ids=[f"{op_type}-{said}" for said, op_type, *_ in MISUSED],
)
def test_misused_operators_are_refused_with_a_reason(said, op_type, given, attributes, caplog):
    (refused,) = ep_nnapi.check(model(op_type, *given, **attributes)).rejections
    assert said in refused.detail
    assert "defect" not in refused.detail
    assert caplog.records == []
