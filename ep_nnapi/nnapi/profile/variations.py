"""Variations of a sample operation: each differs in one property that drivers look at.

Some combine properties that drivers are known to judge together, such as a window of one element
with a stride, or a stride with a dilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations, product

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.profile.form import COUNTS, MAX_COUNT, SIZES, ZERO_POINTS
from ep_nnapi.nnapi.profile.sample import SCALE, Sample, reshaped, with_zeros
from ep_nnapi.nnapi.profile.seeds import N

Values = Mapping[str, bool | int | float]

_SCALARS: Mapping[str, tuple[bool | int | float, ...]] = {
    "activation": (0, 1, 2, 3),
    "padding": (1, 2),
    "mode": (0, 1),
    **dict.fromkeys(("nms_kernel", "type"), (0, 1, 2, 3)),
    **dict.fromkeys(("begin_mask", "end_mask"), (0, 1, 3)),
    "shrink_axis_mask": (0,),
    **dict.fromkeys((f"padding_{side}" for side in ("left", "right", "top", "bottom")), (0, 1)),
}
"""Values of scalars that are tried one at a time; others take each class of numbers."""

_WINDOWS = ("stride_width", "stride_height", "filter_width", "filter_height")
_DILATED = ("dilation_width", "dilation_height", "stride_width", "stride_height")
_COMBINATIONS: tuple[tuple[tuple[str, ...], tuple[tuple[int | bool, ...], ...]], ...] = (
    (_WINDOWS[:2], tuple(product((1, 2, 3), repeat=2))),
    (_WINDOWS[2:], tuple(product((1, 2, 3), repeat=2))),
    (_DILATED[:2], tuple(product((1, 2, 3), repeat=2))),
    (_WINDOWS, tuple((*s, 1, 1) for s in product((1, 2, 3), repeat=2))),
    (_DILATED, tuple((*d, *s) for d, s in product(((2, 2), (1, 2), (2, 1)), repeat=2))),
    (("padding_left", "padding_right"), ((1, 1), (2, 2))),
    (("padding_top", "padding_bottom"), ((1, 1), (2, 2))),
    (("padding_left", "padding_right", "padding_top", "padding_bottom"), ((1, 1, 1, 1),)),
    (("align_corners", "half_pixel_centers"), tuple(product((False, True), repeat=2))),
    (("output_width", "output_height"), ((N, 2), (2, 2))),
    (("width_scale", "height_scale"), ((2, 2), (1, 1))),
    (("begin_mask", "end_mask"), ((1, 1), (3, 3))),
    (("cell_clip", "projection_clip"), ((0, 0), (2, 2))),
    (("adj_x", "adj_y"), ((True, True),)),
)
"""Values of scalars that are tried together."""

_CELLS = ("LSTM", "RNN", "SVDF")
_CELL_ACTIVATIONS = (0, 1, 3, 4, 6)
"""Activations of recurrent cells: none, Relu, Relu6, Tanh and Sigmoid."""

_MANY = 4
"""Up to so many tensors are changed one by one, more of them only together."""


def variations(sample: Sample) -> Iterator[Sample]:
    """The variations of a sample; some may be illegal or equal."""
    makers: tuple[Callable[[Sample], Iterator[Sample]], ...] = (
        _of_scalars,
        _of_sizes_by_scalar,
        _of_indexes,
        _of_constants,
        _of_unknown_sizes,
        _of_broadcasts,
        _of_counts,
        _of_quantization,
    )
    for make in makers:
        yield from make(sample)
    yield replace(sample, relaxed=not sample.relaxed)


def _of_scalars(sample: Sample) -> Iterator[Sample]:
    for name, operands in sample.inputs.items():
        if not operands[0].type.tensor and isinstance(operands[0].value, Data):
            for value in _values(sample, name, operands[0]):
                yield sample.with_values(**{name: value})
    for names, choices in _COMBINATIONS:
        if all(n in sample.inputs for n in names):
            for chosen in choices:
                yield sample.with_values(**dict(zip(names, chosen, strict=True)))


def _values(sample: Sample, name: str, operand: Operand) -> Sequence[bool | int | float]:
    """The values that are tried of a scalar."""
    if operand.type is OperandCode.BOOL:
        return (not operand.array.item(),)
    if name == "padding" and "output_shape" in sample.inputs:
        return (1,)
    if name == "activation" and any(kind in sample.spec.name for kind in _CELLS):
        return _CELL_ACTIVATIONS
    if name == "axis":
        most = max(len(o.dimensions) for _, o in sample.tensors()) + 1
        return range(-most, most)
    whole = operand.type is OperandCode.INT32
    values = _SCALARS.get(name, () if name in (*COUNTS, *SIZES) else (-1, 0, 1, 2, 0.5))
    return [v for v in values if isinstance(v, int) or not whole]


def _of_sizes_by_scalar(sample: Sample) -> Iterator[Sample]:
    """Scalars that other operands must fit."""
    given = sample.inputs
    if "depth_multiplier" in given:
        for multiplier in (2, 3):
            channels = N * multiplier
            variation = sample.with_values(depth_multiplier=multiplier)
            yield _with_filter(variation, (1, 2, 2, channels), channels)
    if sample.spec.name == "GROUPED_CONV_2D":
        for groups in (1, N):
            variation = sample.with_values(num_groups=groups)
            yield _with_filter(variation, (N, 2, 2, N // groups), N)
    if sample.spec.name == "CHANNEL_SHUFFLE":
        yield from (sample.with_values(num_groups=groups) for groups in (1, N))
    if "block_size" in given:
        yield sample.with_values(block_size=1)
        channels = N * N if sample.spec.name == "DEPTH_TO_SPACE" else N
        yield sample.with_values(block_size=N).with_sizes(input=(N, channels, channels, channels))
    if "num_splits" in given:
        for count in range(1, MAX_COUNT + 1):
            dims = (count, *sample.input("input").dimensions[1:])
            variation = sample.with_values(num_splits=count, axis=0).with_sizes(input=dims)
            yield replace(variation, outputs=count)


def _with_filter(sample: Sample, dims: tuple[int, ...], channels: int) -> Sample:
    """The sample with a filter of other sizes and a bias that fits it."""
    weights, bias = reshaped(sample.input("filter"), dims), sample.input("bias")
    if weights.channels is not None:
        count = dims[weights.channels.dim]
        weights = replace(weights, channels=replace(weights.channels, scales=(SCALE,) * count))
    return sample.changed(filter=weights, bias=reshaped(bias, (channels,)))


def _of_indexes(sample: Sample) -> Iterator[Sample]:
    """Other elements of constant tensors of indexes."""
    shape = next(o.dimensions for _, o in sample.tensors())
    rank, given = len(shape), sample.inputs
    if "axes" in given:
        yield from _of_axes(sample, rank)
    if "perm" in given and rank <= 4:
        for order in permutations(range(rank)):
            yield sample.with_values(perm=np.array(order, np.int32))
    if "paddings" in given and sample.spec.name != "SPACE_TO_BATCH_ND":
        masks = product((0, 1), repeat=rank) if rank <= 4 else np.eye(rank, dtype=np.int32)
        for mask in masks:
            yield sample.with_values(paddings=np.array([[m, m] for m in mask], np.int32))
    yield from _of_slices(sample, shape)
    if sample.spec.name == "RESHAPE":
        count = sample.input("input").size
        for length in range(1, MAX_COUNT):
            yield sample.with_values(shape=np.array([count] + [1] * (length - 1), np.int32))
            yield sample.with_values(shape=np.array([-1] + [1] * (length - 1), np.int32))
    if sample.spec.name == "FILL":
        for length in range(1, 8):
            yield sample.with_values(dims=np.full(length, 2, np.int32))


def _of_axes(sample: Sample, rank: int) -> Iterator[Sample]:
    subsets = chain.from_iterable(combinations(range(rank), k) for k in range(1, rank + 1))
    for chosen in subsets:
        for keep in (True, False) if "keep_dims" in sample.inputs else (None,):
            variation = sample if keep is None else sample.with_values(keep_dims=keep)
            yield variation.with_values(axes=np.array(chosen, np.int32))
            yield variation.with_values(axes=np.array(chosen, np.int32) - rank)


def _of_slices(sample: Sample, shape: tuple[int, ...]) -> Iterator[Sample]:
    ones = np.ones(len(shape), np.int32)
    if "strides" in sample.inputs:
        yield sample.with_values(strides=2 * ones)
        yield sample.with_values(strides=-ones, begin=-ones, end=-ones - np.array(shape, np.int32))
        yield sample.with_values(begin=-ones)
        yield sample.with_values(end=-ones)
        for shrunk in range(1, 1 << len(shape)):
            end = np.array([1 if shrunk >> i & 1 else n for i, n in enumerate(shape)], np.int32)
            yield sample.with_values(end=end, shrink_axis_mask=shrunk)
    if "size" in sample.inputs:
        yield sample.with_values(size=-ones)


def _of_constants(sample: Sample) -> Iterator[Sample]:
    """Constant tensors that become variable, and the reverse; also two of them."""
    names = [n for n, _ in sample.tensors()]
    if len(names) > _MANY:
        kinds = {isinstance(o.value, Data) for _, o in sample.tensors()}
        sets = [[n for n, o in sample.tensors() if isinstance(o.value, Data) is k] for k in kinds]
    else:
        sets = [[n] for n in names] + [list(pair) for pair in combinations(names, 2)]
    for chosen in sets:
        variation = sample
        for name in chosen:
            first, *others = variation.inputs[name]
            variable = isinstance(first.value, Data)
            first = replace(first, value=None) if variable else with_zeros(first)
            variation = variation.changed(**{name: (first, *others)})
        yield variation


def _of_unknown_sizes(sample: Sample) -> Iterator[Sample]:
    yield replace(sample, unknown_outputs=True)
    variable = [n for n, o in sample.tensors() if o.value is None]
    single = variable if len(variable) <= _MANY else []
    for chosen in {(n,): None for n in single} | {tuple(variable): None}:
        changed = sample
        for name in chosen:
            dims = (0, *sample.input(name).dimensions[1:])
            others = sample.inputs[name][1:]
            operand = replace(sample.input(name), dimensions=dims)
            changed = changed.changed(**{name: (operand, *others)})
        yield replace(changed, unknown_outputs=True)


def _of_broadcasts(sample: Sample) -> Iterator[Sample]:
    names = [n for n in sample.spec.traits.elementwise if n in sample.inputs]
    if len(names) < 2:
        return
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for name in names:
        dims = sample.input(name).dimensions
        one, last = (1,) * len(dims), (*(1,) * (len(dims) - 1), dims[-1])
        shapes[name] = list(dict.fromkeys((dims, one, last, (*dims[:-1], 1))))
    for chosen in product(*shapes.values()):
        yield sample.with_sizes(**dict(zip(names, chosen, strict=True)))


def _of_counts(sample: Sample) -> Iterator[Sample]:
    """Other numbers of operands of a repeated parameter, and different zero points of them."""
    for param in sample.params:
        if param.many:
            operand = sample.input(param.name)
            for count in range(1, MAX_COUNT + 1):
                yield sample.changed(**{param.name: (operand,) * count})
            constant = with_zeros(operand)
            yield sample.changed(**{param.name: (constant, constant)})
            points = ZERO_POINTS.get(operand.type, ())
            for count in range(2, len(points) + 1):
                for chosen in combinations(points, count):
                    mixed = tuple(replace(operand, zero_point=point) for point in chosen)
                    yield sample.changed(**{param.name: mixed})


def _of_quantization(sample: Sample) -> Iterator[Sample]:
    """Other zero points of inputs, of the output and of all of them, and other output scales."""
    names = [n for n, o in sample.tensors() if o.type in ZERO_POINTS]
    output = sample.output_params[0]
    code = sample.typing.code(output.type)
    points = ZERO_POINTS.get(code) if code is not None else None
    for name in names:
        for point in ZERO_POINTS[sample.input(name).type]:
            yield _with_zero_points(sample, (name,), point)
    for number in range(3):
        for chosen in (names, names[:1]):
            variation = sample
            for name in chosen:
                point = ZERO_POINTS[sample.input(name).type][number]
                variation = _with_zero_points(variation, (name,), point)
            if points is not None:
                yield replace(variation, output_zero_point=points[number])
    if points is not None:
        for point in points:
            yield replace(sample, output_zero_point=point)
        for scale in (2 * SCALE, SCALE * SCALE, SCALE * SCALE / 2):
            yield replace(sample, output_scale=scale)
            yield from (
                replace(sample, output_scale=scale, output_zero_point=point) for point in points
            )


def _with_zero_points(sample: Sample, names: tuple[str, ...], point: int) -> Sample:
    return sample.changed(
        **{n: tuple(replace(o, zero_point=point) for o in sample.inputs[n]) for n in names}
    )
