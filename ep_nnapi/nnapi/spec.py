"""Every NNAPI operation once: code, forms, types, ranks and the feature levels that brought them.

Operand names follow the NDK's documentation (NeuralNetworksTypes.h), in its order.
"""

from __future__ import annotations

from ep_nnapi.nnapi.call import Row, row
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.signature import typing

F32 = OperandCode.TENSOR_FLOAT32
F16 = OperandCode.TENSOR_FLOAT16
I32 = OperandCode.TENSOR_INT32
BOOL8 = OperandCode.TENSOR_BOOL8
Q8 = OperandCode.TENSOR_QUANT8_ASYMM
Q8S = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
Q8C = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL

_FLOATS = (typing(1, T=F32), typing(3, T=F16))
_FLOATS_AND_Q8 = (*_FLOATS, typing(1, T=Q8), typing(4, T=Q8S))

ADD = row(
    "ADD",
    0,
    ["input1:T input2:T activation:i"],
    "output:T",
    [*_FLOATS_AND_Q8, typing(4, T=I32)],
    input1=(1, 4),
    input2=(1, 4),
)
CONV_2D = row(
    "CONV_2D",
    3,
    [
        "input:T filter:W bias:B padding_left:i padding_right:i padding_top:i padding_bottom:i"
        " stride_width:i stride_height:i activation:i | layout:b@3"
        " | dilation_width:i@3 dilation_height:i@3",
        "input:T filter:W bias:B padding:i stride_width:i stride_height:i activation:i"
        " | layout:b@3 | dilation_width:i@3 dilation_height:i@3",
    ],
    "output:T",
    [
        typing(1, T=F32, W=F32, B=F32),
        typing(3, T=F16, W=F16, B=F16),
        typing(1, T=Q8, W=Q8, B=I32),
        typing(3, T=Q8, W=Q8C, B=I32),
        typing(4, T=Q8S, W=Q8S, B=I32),
        typing(4, T=Q8S, W=Q8C, B=I32),
    ],
    input=4,
    filter=4,
    bias=1,
)
FULLY_CONNECTED = row(
    "FULLY_CONNECTED",
    9,
    ["input:T weights:T bias:B activation:i"],
    "output:T",
    [
        typing(1, T=F32, B=F32),
        typing(3, T=F16, B=F16),
        typing(1, T=Q8, B=I32),
        typing(4, T=Q8S, B=I32),
    ],
    input=(2, 4),
    weights=2,
    bias=1,
)
MAX_POOL_2D = row(
    "MAX_POOL_2D",
    17,
    [
        "input:T padding_left:i padding_right:i padding_top:i padding_bottom:i"
        " stride_width:i stride_height:i filter_width:i filter_height:i activation:i | layout:b@3",
        "input:T padding:i stride_width:i stride_height:i filter_width:i filter_height:i"
        " activation:i | layout:b@3",
    ],
    "output:T",
    _FLOATS_AND_Q8,
    input=4,
)
RELU = row("RELU", 19, ["input:T"], "output:T", _FLOATS_AND_Q8, input=(1, 4))
RESHAPE = row(
    "RESHAPE",
    22,
    ["input:T shape:I"],
    "output:T",
    [
        typing(1, T=F32, I=I32),
        typing(3, T=F16, I=I32),
        typing(1, T=Q8, I=I32),
        typing(4, T=Q8S, I=I32),
        typing(6, T=I32, I=I32),
    ],
    input=(1, 4),
)
TRANSPOSE = row(
    "TRANSPOSE",
    37,
    ["input:T perm:I?"],
    "output:T",
    [
        typing(2, T=F32, I=I32),
        typing(3, T=F16, I=I32),
        typing(2, T=Q8, I=I32),
        typing(4, T=Q8S, I=I32),
    ],
    input=(1, 4),
)

OPERATIONS: tuple[Row, ...] = (
    ADD,
    CONV_2D,
    FULLY_CONNECTED,
    MAX_POOL_2D,
    RELU,
    RESHAPE,
    TRANSPOSE,
)
BY_CODE = {op.code: op for op in OPERATIONS}
BY_NAME = {op.name: op for op in OPERATIONS}
