"""Operators that other execution providers document, by type (with the domain if not ONNX's).

Source: onnxruntime.ai, documentation of the XNNPACK and QNN execution providers, "Supported ops"
and "Supported ONNX operators", as of 2026-11.
"""

XNNPACK = frozenset(
    [
        "AveragePool",
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "MaxPool",
        "QLinearConv",
        "Resize",
        "Softmax",
        "com.microsoft:QLinearAveragePool",
        "com.microsoft:QLinearConvTranspose",
        "com.microsoft:QLinearSoftmax",
        "DequantizeLinear",
        "QuantizeLinear",
    ]
)
"""Weights and bias must be constant, images 2-D; Resize bilinear, Softmax along the last axis.

QuantizeLinear and DequantizeLinear belong to the QDQ form of the quantized operators.
"""

QNN = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "Asin",
        "Atan",
        "AveragePool",
        "BatchNormalization",
        "Cast",
        "Clip",
        "Concat",
        "Conv",
        "ConvTranspose",
        "Cos",
        "DepthToSpace",
        "DequantizeLinear",
        "Div",
        "Elu",
        "Equal",
        "Exp",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "Gelu",
        "Gemm",
        "GlobalAveragePool",
        "Greater",
        "GreaterOrEqual",
        "GridSample",
        "HardSwish",
        "InstanceNormalization",
        "LRN",
        "LayerNormalization",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "LogSoftmax",
        "LpNormalization",
        "MatMul",
        "Max",
        "MaxPool",
        "Min",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pad",
        "Pow",
        "QuantizeLinear",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Resize",
        "Round",
        "Sigmoid",
        "Sign",
        "Sin",
        "Slice",
        "Softmax",
        "SpaceToDepth",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tanh",
        "Tile",
        "TopK",
        "Transpose",
        "Unsqueeze",
        "Where",
        "com.microsoft:DequantizeLinear",
        "com.microsoft:Gelu",
        "com.microsoft:QuantizeLinear",
    ]
)
"""Which types each takes depends on the backend and on Qualcomm's SDK.

Reshape, which the page leaves out, is in the release notes of onnxruntime-qnn 2.5.
"""
