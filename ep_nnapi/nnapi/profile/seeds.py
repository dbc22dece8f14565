"""First samples of each operation: every list of operands, every typing, every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import product
from math import prod

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Omitted, Operand
from ep_nnapi.nnapi.profile.form import MAX_RANK
from ep_nnapi.nnapi.profile.sample import Sample, bias_scale, constant, quantized, typed, with_zeros
from ep_nnapi.nnapi.shapes.recurrent import INPUT_GATE, LSTM_CELL, RNN_CELL
from ep_nnapi.nnapi.signature import OperationSpec, Param, Params, Typing
from ep_nnapi.nnapi.spec import OPERATIONS

N = 4
"""Each size of tensors of up to four dimensions: divisible by 2, large enough for windows."""

Dims = tuple[int, ...]


def size_of(rank: int, size: int = N) -> int:
    """The size of each dimension of tensors of up to that rank, `size` if there are few."""
    return size if rank <= 4 else min(size, 2)


def _cell(patterns: Mapping[str, str], *prefixes: str) -> str:
    """The operands of cells with as many inputs, units, outputs and batches."""
    names = [f"{name}:{'n' * len(sizes.split())}" for name, sizes in patterns.items()]
    return " ".join(prefix + name for prefix in prefixes or ("",) for name in names)


_BOTH = "input:nnn aux_input:nnn"
_SHAPES = {
    "CONV_2D": "filter:nwwn bias:n",
    "DEPTHWISE_CONV_2D": "filter:1wwn bias:n",
    "GROUPED_CONV_2D": "filter:nwwh bias:n",
    "TRANSPOSE_CONV_2D": "filter:nwwn bias:n",
    "FULLY_CONNECTED": "weights:nn bias:n",
    **dict.fromkeys(
        ("LSTM", "QUANTIZED_LSTM", "QUANTIZED_16BIT_LSTM"), f"input:nn {_cell(LSTM_CELL)}"
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"input:nnn {_cell(LSTM_CELL)}",
    "BIDIRECTIONAL_SEQUENCE_LSTM": f"{_BOTH} {_cell(LSTM_CELL, 'fw_', 'bw_')}",
    "RNN": f"input:nn {_cell(RNN_CELL)}",
    "UNIDIRECTIONAL_SEQUENCE_RNN": f"input:nnn {_cell(RNN_CELL)}",
    "BIDIRECTIONAL_SEQUENCE_RNN": f"{_BOTH} {_cell(RNN_CELL, 'fw_', 'bw_')}",
    "SVDF": "input:nn weights_feature:nn weights_time:nn bias:n state_in:ns",
    "EMBEDDING_LOOKUP": "lookups:n",
    "HASHTABLE_LOOKUP": "lookups:n keys:n",
    "LSH_PROJECTION": "hash:nn weight:n",
    "RANDOM_MULTINOMIAL": "input:nn seeds:2",
    **dict.fromkeys(("ROI_ALIGN", "ROI_POOLING"), "rois:n4 batch_indices:n"),
    "AXIS_ALIGNED_BBOX_TRANSFORM": "rois:n4 deltas:n4 batch_indices:n image_info:n2",
    "BOX_WITH_NMS_LIMIT": "scores:n2 rois:n8 batch_indices:n",
    "DETECTION_POSTPROCESSING": "scores:1n2 deltas:1n4 anchors:n4",
    "GENERATE_PROPOSALS": "scores:1nn2 deltas:1nn8 anchors:24 image_info:12",
    "HEATMAP_MAX_KEYPOINT": "heatmap:nnnn boxes:n4",
    "REVERSE": "axis:1",
}
"""Shapes of operands that the ranks of others do not give, a character for each dimension: n is the
size, w at most 2 of it, h its half, s its square."""


@cache
def sizes(n: int = N) -> Mapping[tuple[str, str], Dims]:
    """Shapes of operands, by operation and name, that the ranks of others do not give."""
    known = {"n": n, "w": min(n, 2), "h": n // 2, "s": n * n, **{str(i): i for i in range(10)}}
    named = ((op, operand.split(":")) for op, text in _SHAPES.items() for operand in text.split())
    return {(op, name): tuple(known[c] for c in shape) for op, (name, shape) in named}


SIZES = sizes()

WEIGHTS = (
    *("filter", "weights", "bias", "weight", "anchors", "keys", "values", "alpha", "seeds"),
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


def _paddings(shape: Dims, sample: Sample) -> Array:
    """Of the last axis."""
    if sample.spec.name == "SPACE_TO_BATCH_ND":
        return np.zeros((2, 2), np.int32)
    return np.array([[0, 0]] * (len(shape) - 1) + [[1, 1]], np.int32)


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


NOT_SAMPLED = ("IF", "WHILE")
"""Operations whose support depends on the models that they hold."""


def seeds() -> Iterator[Sample]:
    """The first samples of all operations, in the order of their codes."""
    for spec in OPERATIONS:
        if spec.name not in NOT_SAMPLED:
            yield from seeds_of(spec)


def seeds_of(spec: OperationSpec, size: int = N) -> Iterator[Sample]:
    """The first samples of one operation; some may be illegal.

    size   of each dimension of tensors of up to four dimensions
    """
    for inputs, outputs in product(map(_lists, spec.input_params), map(_lists, spec.output_params)):
        for ins, outs, typing in product(inputs, outputs, spec.typings):
            for omitted in _omissions(ins):
                for ranks in _ranks(spec, ins, typing, omitted):
                    yield from _sample(spec, typing, (ins, outs), omitted, ranks, size)


def _lists(form: Params) -> list[Params]:
    """The operand lists of a form, by their possible ends."""
    return [form[: i + 1] for i, param in enumerate(form) if param.last]


def _omissions(params: Params) -> list[frozenset[str]]:
    """Sets of optional parameters to omit together."""
    optional = [p.name for p in params if p.optional]
    if "cell_to_forget_weights" in optional:
        cells = (_omitted_of_cell(optional, *flags) for flags in product((True, False), repeat=6))
        return list(dict.fromkeys(cells))
    if len(optional) > 3:
        return [frozenset(), frozenset(optional)]
    chosen = product((False, True), repeat=len(optional))
    return [frozenset(n for n, on in zip(optional, c, strict=True) if on) for c in chosen]


def _omitted_of_cell(
    optional: list[str],
    coupled: bool,
    peephole: bool,
    projection: bool,
    bias: bool,
    norm: bool,
    auxiliary: bool,
) -> frozenset[str]:
    """The operands that an LSTM with these features omits."""
    kept = {
        "cell_to_input_weights": peephole and not coupled,
        "cell_to_": peephole,
        "projection_weights": projection,
        "projection_bias": projection and bias,
        "input_layer_norm_weights": norm and not coupled,
        "layer_norm_weights": norm,
        "aux_input_to_input_weights": auxiliary and not coupled,
        "aux_": auxiliary,
        **dict.fromkeys(INPUT_GATE, not coupled),
    }
    return frozenset(n for n in optional if not next((k for p, k in kept.items() if p in n), True))


def _ranks(
    spec: OperationSpec, params: Params, typing: Typing, omitted: frozenset[str]
) -> Iterator[Mapping[str, int]]:
    """The ranks of the tensors that may have several, by name."""
    names = [p.name for p in params if p.name not in omitted and _free(spec, p, typing)]
    limits = [spec.ranks.get(n, (1, MAX_RANK)) for n in names]
    for ranks in product(*(range(low, high + 1) for low, high in limits)):
        most = max(ranks, default=0)
        if most <= 4 or all(r in (1, 2, most) for r in ranks):
            yield dict(zip(names, ranks, strict=True))


def _free(spec: OperationSpec, param: Param, typing: Typing) -> bool:
    code = typing.code(param.type)
    named = (spec.name, param.name) in SIZES or param.name in INDEXES
    return code is not None and code.tensor and not named


def _sample(
    spec: OperationSpec,
    typing: Typing,
    forms: tuple[Params, Params],
    omitted: frozenset[str],
    ranks: Mapping[str, int],
    size: int,
) -> Iterator[Sample]:
    inputs: dict[str, tuple[Operand, ...]] = {}
    for param in forms[0]:
        code = typing.code(param.type)
        if code is None:
            return
        operand = _operand(spec, param, code, ranks, size)
        if param.name in omitted:
            operand = Operand(code, value=Omitted.NO_VALUE)
        inputs[param.name] = (operand, operand) if param.many else (operand,)
    outputs = len(forms[1]) + (1 if forms[1][-1].many else 0)
    sample = Sample(spec, typing, *forms, inputs, outputs=outputs)
    sample = _with_bias_scale(sample)
    values: dict[str, Array | bool] = {}
    if "merge_outputs" in inputs:
        values["merge_outputs"] = all(p.name != "bw_output" for p in forms[1])
    for name in inputs.keys() & INDEXES.keys():
        if name not in omitted and (spec.name, name) not in SIZES:
            values[name] = INDEXES[name](_shape(sample), sample)
    yield sample.with_values(**values)


def _operand(
    spec: OperationSpec, param: Param, code: OperandCode, ranks: Mapping[str, int], size: int
) -> Operand:
    if not code.tensor:
        value = SCALARS.get((spec.name, param.name), SCALARS.get(param.name))
        default = {OperandCode.BOOL: False, OperandCode.INT32: 1}.get(code, 1.0)
        return constant(Operand(code), default if value is None else value)
    dims = sizes(size).get((spec.name, param.name))
    if dims is None:
        each = 1 if spec.name == "SQUEEZE" else size_of(max(ranks.values(), default=1), size)
        dims = (each,) * ranks.get(param.name, 1)
    operand = quantized(spec, param.name, typed(code, dims))
    return with_zeros(operand) if param.name.endswith(WEIGHTS) else operand


def _shape(sample: Sample) -> tuple[int, ...]:
    """The shape of the first tensor, which operands of indexes refer to."""
    return next(o.dimensions for _, o in sample.tensors())


def _with_bias_scale(sample: Sample) -> Sample:
    weights = "filter" if "filter" in sample.inputs else "weights"
    if "bias" not in sample.inputs or weights not in sample.inputs:
        return sample
    bias, data = sample.input("bias"), next(iter(sample.inputs.values()))[0]
    if bias.type is not OperandCode.TENSOR_INT32:
        return sample
    return sample.changed(bias=replace(bias, scale=bias_scale(data, sample.input(weights))))
