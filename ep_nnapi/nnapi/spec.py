"""Table of all NNAPI operations: code, signatures, types, ranks and feature levels.

Operand names are those of the NDK's documentation (NeuralNetworksTypes.h) in snake case, in its
order. Type variables: `T` data, `S` scalars of the same precision, `W` weights, `A` bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ep_nnapi.nnapi import rules
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.signature import (
    AxisUse,
    OperationSpec,
    Traits,
    Typing,
    row,
    typing,
)

FLOAT32 = OperandCode.FLOAT32
FLOAT16 = OperandCode.FLOAT16
INT32 = OperandCode.INT32
F32 = OperandCode.TENSOR_FLOAT32
F16 = OperandCode.TENSOR_FLOAT16
I32 = OperandCode.TENSOR_INT32
BOOL8 = OperandCode.TENSOR_BOOL8
Q8 = OperandCode.TENSOR_QUANT8_ASYMM
Q8S = OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
Q8Y = OperandCode.TENSOR_QUANT8_SYMM
Q8C = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
Q16 = OperandCode.TENSOR_QUANT16_ASYMM
Q16Y = OperandCode.TENSOR_QUANT16_SYMM
DATA = (F32, F16, Q8, Q8S)
NUMBERS = (*DATA, I32)
"""Types of what most operations compute on, and with integers."""


_row = partial(row, "", -1)
"""A row, whose name and code are set below: they are in the order of the codes, without a gap."""


def _of(levels: Mapping[OperandCode, int]) -> tuple[Typing, ...]:
    """One typing per data type and its level; scalars are FLOAT16 if the data is float16."""
    return tuple(
        typing(level, T=code, S=FLOAT16 if code is F16 else FLOAT32)
        for code, level in levels.items()
    )


_FLOATS_1 = _of({F32: 1, F16: 3})
_FLOATS_2 = _of({F32: 2, F16: 3})
_FLOATS_3 = _of({F32: 3, F16: 3})
_FLOATS_4 = _of({F32: 4, F16: 4})
_DATA_1 = _of({F32: 1, F16: 3, Q8: 1, Q8S: 4})
_DATA_2 = _of({F32: 2, F16: 3, Q8: 2, Q8S: 4})
_DATA_3 = _of({F32: 3, F16: 3, Q8: 3, Q8S: 4})
_DATA_4 = _of({F32: 4, F16: 4, Q8: 4, Q8S: 4})
_NUMBERS_3 = _of({F32: 3, F16: 3, I32: 3, Q8: 3, Q8S: 4})
_NUMBERS_6 = _of({F32: 6, F16: 6, I32: 6, Q8: 6, Q8S: 6})
_NUMBERS_7 = _of({F32: 7, F16: 7, I32: 7, Q8: 7, Q8S: 7})
_COMPARABLE = _of({BOOL8: 3, F32: 3, F16: 3, I32: 3, Q8: 3, Q8S: 4})
_BOOLEAN = _of({BOOL8: 3})

# Boxes have a separate type variable (R) because quantized data needs another type for them.
_BOXES = (
    typing(3, T=F32, R=F32, S=FLOAT32),
    typing(3, T=F16, R=F16, S=FLOAT16),
    typing(3, T=Q8, R=Q16, S=FLOAT32),
    typing(4, T=Q8S, R=Q16, S=FLOAT32),
)


def _weighted(level: int) -> tuple[Typing, ...]:
    """Typings of convolutions: data, weights and bias."""
    return (
        typing(level, T=F32, W=F32, A=F32),
        typing(3, T=F16, W=F16, A=F16),
        typing(level, T=Q8, W=Q8, A=I32),
        typing(3, T=Q8, W=Q8C, A=I32),
        typing(4, T=Q8S, W=Q8S, A=I32),
        typing(4, T=Q8S, W=Q8C, A=I32),
    )


_PADS = "padding_left:i padding_right:i padding_top:i padding_bottom:i"
_STRIDES = "stride_width:i stride_height:i"
_WINDOW = f"{_STRIDES} filter_width:i filter_height:i activation:i | layout:b@3"
_POOL = f"input:T^4 {_PADS} {_WINDOW} or input:T^4 padding:i {_WINDOW} -> output:T"
_CONVOLVED = "input:T^4 filter:W^4 bias:A^1"
_DILATED = "layout:b@3 | dilation_width:i@3 dilation_height:i@3"
_BINARY = "input1:T input2:T -> output:T"
_COMPARISON = "input1:T input2:T -> output:B"
_UNARY = "input:T -> output:T"
_UNARY_4 = "input:T^1-4 -> output:T"
_ARITHMETIC = "input1:T^1-4 input2:T^1-4 activation:i -> output:T"
_REDUCTION = "input:T^1-4 axes:I keep_dims:b -> output:T"
_RESIZE_END = "align_corners:b@4 | half_pixel_centers:b@4"
_ROI = (
    "input:T^4 rois:R batch_indices:I output_height:i output_width:i height_ratio:S width_ratio:S"
)

_UNARY_TRAITS = Traits(elementwise=("input",))
_BINARY_TRAITS = Traits(elementwise=("input1", "input2"))
_CLAMPS = Traits(elementwise=("input",), keeps_quantization=True, selects=True)
_MOVES = Traits(keeps_quantization=True, selects=True)
_REDUCES = Traits(axis=AxisUse.REDUCED)
_REMOVES_AXIS = Traits(axis=AxisUse.REMOVED)
_EXTREMES = Traits(axis=AxisUse.REDUCED, keeps_quantization=True, selects=True)
_PADDED = Traits(per_axis=("paddings",), keeps_quantization=True, selects=True)
_CHOICES = Traits(elementwise=("input1", "input2"), selects=True)

ADD = _row(
    _ARITHMETIC, (*_DATA_1, *_of({I32: 4})), kernel=(rules.sum_scale,), traits=_BINARY_TRAITS
)
AVERAGE_POOL_2D = _row(_POOL, _DATA_1, traits=Traits(keeps_quantization=True))
CONCATENATION = _row(
    "inputs:T+^1-4 axis:i -> output:T^1-4",
    _DATA_1,
    rules.same_quantization_below_3,
    traits=Traits(selects=True),
)
CONV_2D = _row(
    f"{_CONVOLVED} {_PADS} {_STRIDES} activation:i | {_DILATED}"
    f" or {_CONVOLVED} padding:i {_STRIDES} activation:i | {_DILATED} -> output:T",
    _weighted(1),
    rules.channel_dim(0),
    rules.product_scale_below_3("input", "filter"),
)
DEPTHWISE_CONV_2D = _row(
    f"{_CONVOLVED} {_PADS} {_STRIDES} depth_multiplier:i activation:i | {_DILATED}"
    f" or {_CONVOLVED} padding:i {_STRIDES} depth_multiplier:i activation:i | {_DILATED}"
    " -> output:T",
    _weighted(1),
    rules.channel_dim(3),
    rules.product_scale_below_3("input", "filter"),
    kernel=(rules.depthwise_channels, rules.depthwise_on_2x2),
)
DEPTH_TO_SPACE = _row("input:T^4 block_size:i | layout:b@3 -> output:T", _DATA_1, traits=_MOVES)
DEQUANTIZE = _row(
    "input:T^1-4 -> output:O",
    [
        typing(max(level, 3 if out is F16 else 1), T=code, O=out)
        for code, level in {Q8: 1, Q8Y: 3, Q8C: 3, Q8S: 4}.items()
        for out in (F32, F16)
    ],
    traits=_UNARY_TRAITS,
)
EMBEDDING_LOOKUP = _row(
    "lookups:I values:T -> output:T", _of({F32: 1, F16: 4, I32: 3, Q8: 3, Q8S: 4})
)
FLOOR = _row(_UNARY_4, _FLOATS_1, traits=_UNARY_TRAITS)
FULLY_CONNECTED = _row(
    "input:T^2-4 weights:T^2 bias:A^1 activation:i -> output:T",
    [
        typing(1, T=F32, A=F32),
        typing(3, T=F16, A=F16),
        typing(1, T=Q8, A=I32),
        typing(4, T=Q8S, A=I32),
    ],
    rules.fully_connected_shapes,
    rules.product_scale_below_3("input", "weights"),
    kernel=(rules.square_rows,),
)
HASHTABLE_LOOKUP = _row(
    "lookups:I keys:I values:T -> output:T hits:H",
    [typing(1, T=code, H=Q8) for code in (F32, I32, Q8)],
)
L2_NORMALIZATION = _row(
    "input:T^1-4 | axis:i@3 -> output:T",
    _of({F32: 1, F16: 3, Q8: 3, Q8S: 4}),
    traits=Traits(axis=AxisUse.ALONG, output_quantization=(1 / 128, 128)),
)
L2_POOL_2D = _row(_POOL, _FLOATS_1)
LOCAL_RESPONSE_NORMALIZATION = _row(
    "input:T^1-4 radius:i bias:S alpha:S beta:S | axis:i@3 -> output:T", _FLOATS_1
)
LOGISTIC = _row(
    _UNARY_4,
    _DATA_1,
    kernel=(rules.fixed_point(4),),
    traits=Traits(elementwise=("input",), output_quantization=(1 / 256, 0)),
)
LSH_PROJECTION = _row(
    "hash:H input:T weight:H? type:i -> output:I",
    [
        typing(3 if F16 in (hashes, code) else 1, H=hashes, T=code)
        for hashes in (F32, F16)
        for code in (F32, F16, I32, Q8)
    ],
)
_GATES = "input_to_input_weights:T? input_to_forget_weights:T input_to_cell_weights:T \
input_to_output_weights:T recurrent_to_input_weights:T? recurrent_to_forget_weights:T \
recurrent_to_cell_weights:T recurrent_to_output_weights:T cell_to_input_weights:T? \
cell_to_forget_weights:T? cell_to_output_weights:T? input_gate_bias:T? forget_gate_bias:T \
cell_bias:T output_gate_bias:T projection_weights:T? projection_bias:T?"
_LAYER_NORM = "input_layer_norm_weights:T?@3 forget_layer_norm_weights:T?@3 \
cell_layer_norm_weights:T?@3 output_layer_norm_weights:T?@3"
_STATES = "output_state_in:T cell_state_in:T activation:i cell_clip:S projection_clip:S"
LSTM = _row(
    f"input:T {_GATES} {_STATES} | {_LAYER_NORM}"
    " -> scratch_buffer:T output_state_out:T cell_state_out:T output:T",
    _FLOATS_1,
)
MAX_POOL_2D = _row(_POOL, _DATA_1, traits=_MOVES)
MUL = _row(_ARITHMETIC, (*_DATA_1, *_of({I32: 4})), rules.product_scale, traits=_BINARY_TRAITS)
RELU = _row(_UNARY_4, _DATA_1, traits=_CLAMPS)
RELU1 = _row(_UNARY_4, _DATA_1, traits=_CLAMPS)
RELU6 = _row(_UNARY_4, _DATA_1, traits=_CLAMPS)
RESHAPE = _row("input:T^1-4 shape:I -> output:T", (*_DATA_1, *_of({I32: 6})), traits=_MOVES)
RESIZE_BILINEAR = _row(
    f"input:T^4 output_width:i output_height:i | layout:b@3 | {_RESIZE_END}"
    f" or input:T^4 width_scale:S@3 height_scale:S@3 | layout:b@3 | {_RESIZE_END} -> output:T",
    _of({F32: 1, F16: 3, Q8: 3, Q8S: 4}),
    traits=Traits(keeps_quantization=True),
)
RNN = _row(
    "input:T weights:T recurrent_weights:T bias:T hidden_state_in:T activation:i"
    " -> hidden_state_out:T output:T",
    _FLOATS_1,
)
SOFTMAX = _row(
    "input:T^1-4 beta:S | axis:i@3 -> output:T",
    _DATA_1,
    rules.softmax_rank_below_3,
    kernel=(rules.fixed_point(5),),
    traits=Traits(axis=AxisUse.ALONG, output_quantization=(1 / 256, 0)),
)
SPACE_TO_DEPTH = _row("input:T^4 block_size:i | layout:b@3 -> output:T", _DATA_1, traits=_MOVES)
SVDF = _row(
    "input:T weights_feature:T weights_time:T bias:T? state_in:T rank:i activation:i"
    " -> state_out:T output:T",
    _FLOATS_1,
)
TANH = _row(
    _UNARY_4,
    _of({F32: 1, F16: 3, Q8: 3, Q8S: 4}),
    kernel=(rules.fixed_point(4),),
    traits=Traits(elementwise=("input",), output_quantization=(1 / 128, 128)),
)
BATCH_TO_SPACE_ND = _row("input:T^4 block_sizes:I | layout:b@3 -> output:T", _DATA_2, traits=_MOVES)
DIV = _row(
    _ARITHMETIC,
    (*_FLOATS_2, *_of({I32: 4, Q8S: 4})),
    kernel=(rules.not_of(Q8S),),
    traits=_BINARY_TRAITS,
)
MEAN = _row(
    "input:T^1-4 axes:I keep_dims:i -> output:T",
    _DATA_2,
    traits=Traits(axis=AxisUse.REDUCED, keeps_quantization=True),
    kernel=(rules.no_8_bit_kernel_below_3,),
)
PAD = _row(
    "input:T^1-4 paddings:I -> output:T",
    _DATA_2,
    rules.zero_padding_below_3,
    traits=_PADDED,
    kernel=(rules.four_axes_below_3,),
)
SPACE_TO_BATCH_ND = _row(
    "input:T^4 block_sizes:I paddings:I | layout:b@3 -> output:T",
    _DATA_2,
    rules.zero_padding_below_3,
    traits=_MOVES,
)
SQUEEZE = _row("input:T^1-4 axes:I? -> output:T", _DATA_2, traits=_MOVES)
STRIDED_SLICE = _row(
    "input:T^1-4 begin:I end:I strides:I begin_mask:i end_mask:i shrink_axis_mask:i -> output:T",
    _DATA_2,
    traits=Traits(per_axis=("begin", "end", "strides"), keeps_quantization=True, selects=True),
)
SUB = _row(
    _ARITHMETIC,
    _of({F32: 2, F16: 3, I32: 4, Q8: 3, Q8S: 4}),
    kernel=(rules.sum_scale,),
    traits=_BINARY_TRAITS,
)
TRANSPOSE = _row("input:T^1-4 perm:I? -> output:T", _DATA_2, traits=_MOVES)
ABS = _row(_UNARY, _of({F32: 3, F16: 3, I32: 4}), traits=_UNARY_TRAITS)
ARGMAX = _row("input:T axis:i -> output:I", _NUMBERS_3, traits=_REMOVES_AXIS)
ARGMIN = _row("input:T axis:i -> output:I", _NUMBERS_3, traits=_REMOVES_AXIS)
AXIS_ALIGNED_BBOX_TRANSFORM = _row(
    "rois:R deltas:T batch_indices:I image_info:R -> output:R", _BOXES
)


def _prefixed(prefix: str, form: str) -> str:
    return " ".join(prefix + param for param in form.split())


_AUXILIARY = "aux_input_to_input_weights:T? aux_input_to_forget_weights:T? \
aux_input_to_cell_weights:T? aux_input_to_output_weights:T?"
_BOTH_STATES = "fw_output_state_out:T@4 fw_cell_state_out:T@4 \
bw_output_state_out:T@4 bw_cell_state_out:T@4"
BIDIRECTIONAL_SEQUENCE_LSTM = _row(
    f"input:T^3 {_prefixed('fw_', _GATES)} "
    f"{_prefixed('bw_', _GATES)} "
    "fw_output_state_in:T fw_cell_state_in:T bw_output_state_in:T bw_cell_state_in:T aux_input:T? "
    f"{_prefixed('fw_', _AUXILIARY)} {_prefixed('bw_', _AUXILIARY)} "
    "activation:i cell_clip:S projection_clip:S merge_outputs:b time_major:b "
    f"{_prefixed('fw_', _LAYER_NORM)} {_prefixed('bw_', _LAYER_NORM)}"
    f" -> fw_output:T bw_output:T | {_BOTH_STATES} or output:T | {_BOTH_STATES}",
    _FLOATS_3,
)
BIDIRECTIONAL_SEQUENCE_RNN = _row(
    "input:T^3 fw_weights:T fw_recurrent_weights:T fw_bias:T fw_hidden_state_in:T"
    " bw_weights:T bw_recurrent_weights:T bw_bias:T bw_hidden_state_in:T"
    " aux_input:T? fw_aux_weights:T? bw_aux_weights:T? activation:i time_major:b merge_outputs:b"
    " -> fw_output:T bw_output:T | fw_hidden_state_out:T@4 bw_hidden_state_out:T@4"
    " or output:T | fw_hidden_state_out:T@4 bw_hidden_state_out:T@4",
    _FLOATS_3,
)
BOX_WITH_NMS_LIMIT = _row(
    "scores:T rois:R batch_indices:I score_threshold:S max_num_detections:i nms_kernel:i"
    " iou_threshold:S sigma:S nms_score_threshold:S"
    " -> output_scores:T output_rois:R output_classes:I output_batch_indices:I",
    _BOXES,
)
CAST = _row(
    "input:T -> output:O",
    [
        *(typing(3, T=a, O=b) for a in (F32, F16, I32, Q8) for b in (F32, F16, I32, Q8)),
        *(typing(4, T=a, O=a) for a in (BOOL8, Q16, Q16Y, Q8S, Q8Y)),
    ],
    rules.same_shape,
    traits=_UNARY_TRAITS,
)
CHANNEL_SHUFFLE = _row("input:T^1-4 num_groups:i axis:i -> output:T", _DATA_3, traits=_MOVES)
DETECTION_POSTPROCESSING = _row(
    "scores:T deltas:T anchors:T dy_scale:S dx_scale:S dh_scale:S dw_scale:S use_regular_nms:b"
    " max_num_detections:i max_classes_per_detection:i max_detections_per_class:i"
    " score_threshold:S iou_threshold:S is_background_in_label:b"
    " -> output_scores:T output_boxes:T output_classes:I output_num_detections:I",
    _FLOATS_3,
)
EQUAL = _row(_COMPARISON, _COMPARABLE, traits=_BINARY_TRAITS)
EXP = _row(_UNARY, _FLOATS_3, traits=_UNARY_TRAITS)
EXPAND_DIMS = _row("input:T axis:i -> output:T", _NUMBERS_3, traits=_MOVES)
GATHER = _row("input:T axis:i indices:I -> output:T", _NUMBERS_3, traits=_MOVES)
GENERATE_PROPOSALS = _row(
    "scores:T deltas:T anchors:N image_info:R height_ratio:S width_ratio:S pre_nms_max:i"
    " post_nms_max:i iou_threshold:S min_size:S layout:b"
    " -> output_scores:T output_rois:R output_batch_indices:I",
    [
        typing(3, T=F32, N=F32, R=F32, S=FLOAT32),
        typing(3, T=F16, N=F16, R=F16, S=FLOAT16),
        typing(3, T=Q8, N=Q16Y, R=Q16, S=FLOAT32),
        typing(4, T=Q8S, N=Q16Y, R=Q16, S=FLOAT32),
    ],
)
GREATER = _row(_COMPARISON, _COMPARABLE, traits=_BINARY_TRAITS)
GREATER_EQUAL = _row(_COMPARISON, _COMPARABLE, traits=_BINARY_TRAITS)
GROUPED_CONV_2D = _row(
    f"{_CONVOLVED} {_PADS} {_STRIDES} num_groups:i activation:i layout:b"
    f" or {_CONVOLVED} padding:i {_STRIDES} num_groups:i activation:i layout:b -> output:T",
    _weighted(3),
    rules.channel_dim(0),
)
HEATMAP_MAX_KEYPOINT = _row(
    "heatmap:T^4 boxes:R layout:b -> output_scores:T output_keypoints:R", _BOXES
)
INSTANCE_NORMALIZATION = _row("input:T^4 gamma:S beta:S epsilon:S layout:b -> output:T", _FLOATS_3)
LESS = _row(_COMPARISON, _COMPARABLE, traits=_BINARY_TRAITS)
LESS_EQUAL = _row(_COMPARISON, _COMPARABLE, traits=_BINARY_TRAITS)
LOG = _row(_UNARY, _FLOATS_3, traits=_UNARY_TRAITS)
LOGICAL_AND = _row(_BINARY, _BOOLEAN, traits=_BINARY_TRAITS)
LOGICAL_NOT = _row(_UNARY, _BOOLEAN, traits=_UNARY_TRAITS)
LOGICAL_OR = _row(_BINARY, _BOOLEAN, traits=_BINARY_TRAITS)
LOG_SOFTMAX = _row(
    "input:T beta:S axis:i -> output:T", _FLOATS_3, traits=Traits(axis=AxisUse.ALONG)
)
MAXIMUM = _row(_BINARY, _NUMBERS_3, traits=_CHOICES)
MINIMUM = _row(_BINARY, _NUMBERS_3, traits=_CHOICES)
NEG = _row(_UNARY, _of({F32: 3, F16: 3, I32: 3}), traits=_UNARY_TRAITS)
NOT_EQUAL = _row(_COMPARISON, _COMPARABLE, traits=_BINARY_TRAITS)
PAD_V2 = _row(
    "input:T^1-4 paddings:I pad_value:S -> output:T",
    [*_FLOATS_3, typing(3, T=Q8, S=INT32), typing(4, T=Q8S, S=INT32)],
    traits=_PADDED,
)
POW = _row(
    "base:T exponent:T -> output:T", _FLOATS_3, traits=Traits(elementwise=("base", "exponent"))
)
PRELU = _row("input:T alpha:T -> output:T", _DATA_3, traits=Traits(elementwise=("input", "alpha")))
QUANTIZE = _row(
    "input:T -> output:O",
    [typing(level, T=code, O=out) for out, level in ((Q8, 3), (Q8S, 4)) for code in (F32, F16)],
    traits=_UNARY_TRAITS,
)
QUANTIZED_16BIT_LSTM = _row(
    "input:T input_to_input_weights:T input_to_forget_weights:T input_to_cell_weights:T"
    " input_to_output_weights:T recurrent_to_input_weights:T recurrent_to_forget_weights:T"
    " recurrent_to_cell_weights:T recurrent_to_output_weights:T"
    " input_gate_bias:I forget_gate_bias:I cell_bias:I output_gate_bias:I"
    " cell_state_in:C output_state_in:T -> cell_state_out:C output_state_out:T",
    [typing(3, T=Q8, C=Q16Y)],
)
RANDOM_MULTINOMIAL = _row("input:T sample_count:i seeds:I -> output:I", _FLOATS_3)
REDUCE_ALL = _row(_REDUCTION, _BOOLEAN, traits=_REDUCES)
REDUCE_ANY = _row(_REDUCTION, _BOOLEAN, traits=_REDUCES)
REDUCE_MAX = _row(_REDUCTION, _DATA_3, traits=_EXTREMES)
REDUCE_MIN = _row(_REDUCTION, _DATA_3, traits=_EXTREMES)
REDUCE_PROD = _row(_REDUCTION, _FLOATS_3, traits=_REDUCES)
REDUCE_SUM = _row(_REDUCTION, _FLOATS_3, traits=_REDUCES)
ROI_ALIGN = _row(
    f"{_ROI} height_sampling_points:i width_sampling_points:i layout:b -> output:T", _BOXES
)
ROI_POOLING = _row(f"{_ROI} layout:b -> output:T", _BOXES)
RSQRT = _row(_UNARY, _of({F32: 3, F16: 3, Q8: 7, Q8S: 7}), traits=_UNARY_TRAITS)
SELECT = _row(
    "condition:B input1:T input2:T -> output:T",
    _NUMBERS_3,
    traits=Traits(elementwise=("condition", "input1", "input2")),
)
SIN = _row(_UNARY, _FLOATS_3, traits=_UNARY_TRAITS)
SLICE = _row(
    "input:T begin:I size:I -> output:T",
    _NUMBERS_3,
    traits=Traits(per_axis=("begin", "size"), keeps_quantization=True, selects=True),
)
SPLIT = _row(
    "input:T axis:i num_splits:i -> outputs:T+",
    _NUMBERS_3,
    traits=Traits(axis=AxisUse.ALONG, keeps_quantization=True, selects=True),
)
SQRT = _row(_UNARY, _FLOATS_3, traits=_UNARY_TRAITS)
TILE = _row(
    "input:T multiples:I -> output:T",
    _NUMBERS_3,
    traits=Traits(per_axis=("multiples",), keeps_quantization=True, selects=True),
)
TOPK_V2 = _row("input:T k:i -> values:T indices:I", _NUMBERS_3, traits=_MOVES)
TRANSPOSE_CONV_2D = _row(
    f"{_CONVOLVED} {_PADS} {_STRIDES} activation:i layout:b"
    f" or {_CONVOLVED} output_shape:I padding:i {_STRIDES} activation:i layout:b -> output:T",
    _weighted(3),
    rules.channel_dim(0),
)
UNIDIRECTIONAL_SEQUENCE_LSTM = _row(
    f"input:T^3 {_GATES} {_STATES} time_major:b {_LAYER_NORM}"
    " -> output:T | output_state_out:T@4 cell_state_out:T@4",
    _FLOATS_3,
)
UNIDIRECTIONAL_SEQUENCE_RNN = _row(
    "input:T^3 weights:T recurrent_weights:T bias:T hidden_state_in:T activation:i time_major:i"
    " -> output:T | hidden_state_out:T@4",
    _FLOATS_3,
)
RESIZE_NEAREST_NEIGHBOR = _row(
    f"input:T^4 output_width:i output_height:i layout:b | {_RESIZE_END}"
    f" or input:T^4 width_scale:S height_scale:S layout:b | {_RESIZE_END} -> output:T",
    _DATA_3,
    traits=_MOVES,
)
QUANTIZED_LSTM = _row(
    "input:T input_to_input_weights:W? input_to_forget_weights:W input_to_cell_weights:W"
    " input_to_output_weights:W recurrent_to_input_weights:W? recurrent_to_forget_weights:W"
    " recurrent_to_cell_weights:W recurrent_to_output_weights:W cell_to_input_weights:C?"
    " cell_to_forget_weights:C? cell_to_output_weights:C? input_gate_bias:I? forget_gate_bias:I"
    " cell_bias:I output_gate_bias:I projection_weights:W? projection_bias:I?"
    " output_state_in:T cell_state_in:C input_layer_norm_weights:C? forget_layer_norm_weights:C?"
    " cell_layer_norm_weights:C? output_layer_norm_weights:C? cell_clip:f? projection_clip:f?"
    " input_intermediate_scale:f forget_intermediate_scale:f cell_intermediate_scale:f"
    " output_intermediate_scale:f hidden_state_zero_point:i hidden_state_scale:f"
    " -> output_state_out:T cell_state_out:C output:T",
    [typing(4, T=Q8S, W=Q8Y, C=Q16Y)],
)
IF = _row("condition:B^1 then_model:m else_model:m inputs:any* -> outputs:any+", [typing(4)])
WHILE = _row("condition_model:m body_model:m inputs:any+ -> outputs:any+", [typing(4)])
ELU = _row("input:T alpha:S -> output:T", _FLOATS_4, traits=_UNARY_TRAITS)
HARD_SWISH = _row(_UNARY, _DATA_4, traits=_UNARY_TRAITS)
FILL = _row("dims:I value:S -> output:T", [*_FLOATS_4, typing(4, T=I32, S=INT32)])
RANK = _row(
    "input:T -> output:i",
    _of(dict.fromkeys((F32, F16, I32, BOOL8, Q8, Q8S, Q8Y, Q8C, Q16, Q16Y), 4)),
)
BATCH_MATMUL = _row(
    "input1:T^2-4 input2:T^2-4 adj_x:b? adj_y:b? -> output:T", _of({F32: 6, F16: 6, I32: 6, Q8S: 6})
)
PACK = _row(
    "axis:i inputs:T+ -> output:T",
    _NUMBERS_6,
    rules.packed_rank,
    rules.same_quantization("inputs"),
    traits=_MOVES,
)
MIRROR_PAD = _row(
    "input:T paddings:I^2 mode:i -> output:T",
    _NUMBERS_7,
    rules.paddings_shape,
    rules.same_rank,
    rules.same_quantization("input"),
    traits=_PADDED,
)
REVERSE = _row(
    "input:T^1-8 axis:I^1 -> output:T",
    _NUMBERS_7,
    rules.one_element("axis"),
    rules.same_rank,
    rules.same_quantization("input"),
    traits=_MOVES,
)

_NAMED = {name: op for name, op in globals().items() if isinstance(op, OperationSpec)}
for _code, (_name, _operation) in enumerate(_NAMED.items()):
    object.__setattr__(_operation, "name", _name)
    object.__setattr__(_operation, "code", _code)
OPERATIONS: tuple[OperationSpec, ...] = tuple(_NAMED.values())
BY_CODE = {op.code: op for op in OPERATIONS}
BY_NAME: Mapping[str, OperationSpec] = _NAMED


def operation_of(function: Callable[..., object]) -> OperationSpec:
    """The operation that a function has the name of, in lower case."""
    return BY_NAME[function.__name__.strip("_").upper()]
