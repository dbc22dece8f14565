"""Sizes and values of sample operands, by operation and parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.profile.sample import Sample

N = 4
"""Each size of tensors of up to four dimensions: divisible by 2, large enough for windows."""

Dims = tuple[int, ...]


def size_of(rank: int) -> int:
    """The size of each dimension of tensors of up to that rank."""
    return N if rank <= 4 else 2


_FILTERS: Mapping[tuple[str, str], Dims] = {
    ("CONV_2D", "filter"): (N, 2, 2, N),
    ("DEPTHWISE_CONV_2D", "filter"): (1, 2, 2, N),
    ("GROUPED_CONV_2D", "filter"): (N, 2, 2, N // 2),
    ("TRANSPOSE_CONV_2D", "filter"): (N, 2, 2, N),
    ("FULLY_CONNECTED", "weights"): (N, N),
}

_GATES = ("input", "forget", "cell", "output")


def _lstm(prefix: str = "") -> dict[str, Dims]:
    """The operands of an LSTM with as many inputs, cells, outputs and batches."""
    matrices = [f"{side}_to_{g}_weights" for side in ("input", "recurrent") for g in _GATES]
    matrices += ["projection_weights", "output_state_in", "cell_state_in"]
    matrices += [f"aux_input_to_{g}_weights" for g in _GATES]
    vectors = [f"cell_to_{g}_weights" for g in _GATES]
    vectors += [f"{g}_bias" for g in ("input_gate", "forget_gate", "cell", "output_gate")]
    vectors += ["projection_bias", *(f"{g}_layer_norm_weights" for g in _GATES)]
    sizes: dict[str, Dims] = {f"{prefix}{n}": (N, N) for n in matrices}
    return sizes | {f"{prefix}{n}": (N,) for n in vectors}


def _rnn(prefix: str = "") -> dict[str, Dims]:
    matrices = ("weights", "recurrent_weights", "hidden_state_in", "aux_weights")
    return {f"{prefix}{n}": (N, N) for n in matrices} | {f"{prefix}bias": (N,)}


_OPERANDS: Mapping[str, Mapping[str, Dims]] = {
    "LSTM": {"input": (N, N), **_lstm()},
    "QUANTIZED_LSTM": {"input": (N, N), **_lstm()},
    "QUANTIZED_16BIT_LSTM": {"input": (N, N), **_lstm()},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {"input": (N, N, N), **_lstm()},
    "BIDIRECTIONAL_SEQUENCE_LSTM": {
        **{"input": (N, N, N), "aux_input": (N, N, N)},
        **_lstm("fw_"),
        **_lstm("bw_"),
    },
    "RNN": {"input": (N, N), **_rnn()},
    "UNIDIRECTIONAL_SEQUENCE_RNN": {"input": (N, N, N), **_rnn()},
    "BIDIRECTIONAL_SEQUENCE_RNN": {
        **{"input": (N, N, N), "aux_input": (N, N, N)},
        **_rnn("fw_"),
        **_rnn("bw_"),
    },
    "SVDF": {
        "input": (N, N),
        "weights_feature": (N, N),
        "weights_time": (N, N),
        "bias": (N,),
        "state_in": (N, N * N),
    },
    "EMBEDDING_LOOKUP": {"lookups": (N,)},
    "HASHTABLE_LOOKUP": {"lookups": (N,), "keys": (N,)},
    "LSH_PROJECTION": {"hash": (N, N), "weight": (N,)},
    "RANDOM_MULTINOMIAL": {"input": (N, N), "seeds": (2,)},
    "ROI_ALIGN": {"rois": (N, 4), "batch_indices": (N,)},
    "ROI_POOLING": {"rois": (N, 4), "batch_indices": (N,)},
    "AXIS_ALIGNED_BBOX_TRANSFORM": {
        **{"rois": (N, 4), "deltas": (N, 4), "batch_indices": (N,), "image_info": (N, 2)}
    },
    "BOX_WITH_NMS_LIMIT": {"scores": (N, 2), "rois": (N, 8), "batch_indices": (N,)},
    "DETECTION_POSTPROCESSING": {"scores": (1, N, 2), "deltas": (1, N, 4), "anchors": (N, 4)},
    "GENERATE_PROPOSALS": {
        **{"scores": (1, N, N, 2), "deltas": (1, N, N, 8), "anchors": (2, 4), "image_info": (1, 2)}
    },
    "HEATMAP_MAX_KEYPOINT": {"heatmap": (N, N, N, N), "boxes": (N, 4)},
    "FULLY_CONNECTED": {"bias": (N,)},
    "REVERSE": {"axis": (1,)},
    **{f"{kind}CONV_2D": {"bias": (N,)} for kind in ("", "DEPTHWISE_", "GROUPED_", "TRANSPOSE_")},
}

SIZES: Mapping[tuple[str, str], Dims] = {
    **_FILTERS,
    **{(op, name): dims for op, sizes in _OPERANDS.items() for name, dims in sizes.items()},
}
"""Shapes of operands, by operation and name, that the ranks of others do not give."""

WEIGHTS = (
    "filter",
    "weights",
    "bias",
    "weight",
    "anchors",
    "keys",
    "values",
    "alpha",
    "seeds",
    "axis",
)
"""Ends of the names of operands that are constants in most models."""

SCALARS: Mapping[str | tuple[str, str], bool | int | float] = {
    "activation": 0,
    "padding": 1,
    **dict.fromkeys((f"padding_{side}" for side in ("left", "right", "top", "bottom")), 0),
    **dict.fromkeys(("filter_width", "filter_height", "block_size", "num_groups", "k"), 2),
    **dict.fromkeys(("output_width", "output_height"), N),
    **dict.fromkeys(("begin_mask", "end_mask", "shrink_axis_mask", "axis", "mode"), 0),
    "num_splits": 2,
    "max_num_detections": 3,
    ("HEATMAP_MAX_KEYPOINT", "layout"): False,
    ("UNIDIRECTIONAL_SEQUENCE_RNN", "time_major"): 0,
    ("PAD_V2", "pad_value"): 0,
    ("L2_NORMALIZATION", "axis"): -1,
    ("SOFTMAX", "axis"): -1,
    ("LOCAL_RESPONSE_NORMALIZATION", "axis"): -1,
}
"""Values of scalars, by name or by operation and name; 1 and False otherwise."""


def _int32(*values: int) -> Array:
    return np.array(values, np.int32)


def _pairs(shape: Dims) -> Array:
    """Paddings of the last axis."""
    return np.array([[0, 0]] * (len(shape) - 1) + [[1, 1]], np.int32)


def _paddings(shape: Dims, sample: Sample) -> Array:
    spatial = sample.spec.name == "SPACE_TO_BATCH_ND"
    return np.zeros((2, 2), np.int32) if spatial else _pairs(shape)


INDEXES: Mapping[str, Callable[[Dims, Sample], Array]] = {
    "axes": lambda shape, _: _int32(0),
    "perm": lambda shape, _: _int32(*reversed(range(len(shape)))),
    "paddings": _paddings,
    "begin": lambda shape, _: np.zeros(len(shape), np.int32),
    "end": lambda shape, _: _int32(*shape),
    "strides": lambda shape, _: np.ones(len(shape), np.int32),
    "size": lambda shape, _: _int32(*shape),
    "multiples": lambda shape, _: np.full(len(shape), 2, np.int32),
    "shape": lambda shape, _: _int32(prod(shape)),
    "dims": lambda shape, _: _int32(N),
    "block_sizes": lambda shape, _: _int32(2, 2),
    "output_shape": lambda shape, _: _int32(*shape),
}
"""Constant tensors of indexes: values for the shape of the operation's first tensor."""
