"""Sizes of the outputs of a node whose inputs have a `Size` among theirs: ONNX's rules, exactly.

ONNX's own shape inference knows numbers only. The rules here compute with sizes; what they yield
for the numbers that the sizes are now must be what ONNX infers. Otherwise, and where there is no
rule, the sizes become the numbers that they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TypeAlias

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Dim, DType, Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import at_present, broadcast, is_symbolic, plain
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.sizes.proxies import inference_proxy

Dims: TypeAlias = tuple[int, ...]


def has_sizes(node: GraphNode) -> bool:
    """True if an input has a `Size` among its dimensions or contents."""
    return is_symbolic(_sizes_read(node))


def with_sizes(node: GraphNode, inferred: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """The outputs with sizes in place of the numbers that ONNX's shape inference found."""
    given = RuleInputs(inference_proxy(node))
    rule = _RULES.get((given.node.domain, given.node.op_type))
    try:
        computed = list(rule(given)) if rule is not None else []
    except (ArithmeticError, IndexError, TypeError, ValueError):
        computed = []  # what ONNX infers of such a node is for its numbers only
    found: list[Value | None] = []
    for position, value in enumerate(inferred):
        dims = computed[position] if position < len(computed) else None
        if value is None or is_symbolic(d for d in value.dims or () if isinstance(d, int)):
            found.append(value)  # the model declares them by name
        elif dims is not None and _same(dims, value.dims):
            found.append(replace(value, dims=tuple(dims)))
        else:
            if value.dims is not None:
                plain(_sizes_read(node))
            found.append(value)
    return tuple(found)


def _sizes_read(node: GraphNode) -> Iterator[int]:
    for value in node.inputs:
        if value is not None:
            yield from (d for d in value.dims or () if isinstance(d, int))
            if value.constant is not None:
                yield from value.constant.numbers


def _same(dims: Sequence[int], inferred: tuple[Dim, ...] | None) -> bool:
    """True if the sizes are the inferred numbers now."""
    return inferred is not None and [*map(at_present, dims)] == list(inferred)


class RuleInputs:
    """What a rule reads of a node; IndexError or TypeError where there is none."""

    def __init__(self, node: GraphNode) -> None:
        self.node = node

    def dims(self, index: int) -> Dims:
        """The sizes of an input; raises TypeError if one is unknown."""
        value = self._input(index)
        if value.dims is None or not all(isinstance(d, int) for d in value.dims):
            raise TypeError
        return tuple(d for d in value.dims if isinstance(d, int))

    def has(self, index: int) -> bool:
        """True if the input is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def every(self) -> list[Dims]:
        """The sizes of all inputs."""
        return [self.dims(i) for i in range(len(self.node.inputs)) if self.has(i)]

    def numbers(self, index: int, attribute: str = "") -> Dims | None:
        """The numbers of a constant integer input, or else of an attribute; None if it has neither.

        Raises TypeError for an input whose numbers are unknown.
        """
        if attribute in self.node.attributes:
            return self.integers(attribute)
        if not self.has(index):
            return None
        constant = self._input(index).constant
        if constant is None or constant.dtype not in (DType.INT32, DType.INT64):
            raise TypeError
        return constant.integers

    def reals(self, index: int, attribute: str = "") -> tuple[float, ...] | None:
        """The numbers of a constant float input, or else of an attribute; None if it has neither.

        Raises TypeError for an input whose numbers are unknown.
        """
        given = self.node.attributes.get(attribute)
        if isinstance(given, tuple):
            return tuple(float(n) for n in given)
        if not self.has(index) or self.dims(index) == (0,):
            return None
        constant = self._input(index).constant
        if constant is None:
            raise TypeError
        return tuple(float(n) for n in constant.array.reshape(-1))

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        found = self.node.attributes.get(name, default)
        if not isinstance(found, int):
            raise TypeError
        return found

    def integers(self, name: str, default: Dims = ()) -> Dims:
        """An attribute of integers."""
        found = self.node.attributes.get(name) or default
        if not isinstance(found, tuple):
            raise TypeError
        return tuple(n for n in found if isinstance(n, int))

    def axis(self, default: int, rank: int, name: str = "axis") -> int:
        """An attribute that is an axis, counted from the first."""
        found = self.integer(name, default)
        return found + rank if found < 0 else found

    def _input(self, index: int) -> Value:
        value = self.node.inputs[index]
        if value is None:
            raise TypeError
        return value


ShapeRule: TypeAlias = Callable[[RuleInputs], Iterable[Sequence[int] | None]]


def _normalized(g: RuleInputs) -> Iterator[Dims]:
    """LayerNormalization: the statistics have sizes of 1 from `axis` on."""
    x = g.dims(0)
    axis = g.axis(-1, len(x))
    yield x
    for _ in range(2):
        yield (*x[:axis], *(1,) * (len(x) - axis))


def _matmul(g: RuleInputs) -> Iterator[Dims]:
    a, b = g.dims(0), g.dims(1)
    left, right = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    if left[-1] != right[-2]:
        raise ValueError
    rows, columns = left[-2:-1] if len(a) > 1 else (), right[-1:] if len(b) > 1 else ()
    yield (*(broadcast(left[:-2], right[:-2]) if max(len(a), len(b)) > 2 else ()), *rows, *columns)


def _gemm(g: RuleInputs) -> Iterator[Dims]:
    a, b = g.dims(0), g.dims(1)
    rows, depth = a[::-1] if g.integer("transA", 0) else a
    other, columns = b[::-1] if g.integer("transB", 0) else b
    if depth != other:
        raise ValueError
    yield rows, columns


def _transpose(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    yield tuple(x[i] for i in g.integers("perm", tuple(range(len(x)))[::-1]))


def _concat(g: RuleInputs) -> Iterator[Dims]:
    parts = g.every()
    axis = g.axis(1, len(parts[0]))
    merged = [broadcast(*((p[i],) for p in parts))[0] for i in range(len(parts[0])) if i != axis]
    yield (*merged[:axis], sum(p[axis] for p in parts), *merged[axis:])


def _split(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    axis, count = g.axis(0, len(x)), len(g.node.outputs)
    sizes = g.numbers(1, "split")
    if sizes is None and g.node.since < 18:
        if x[axis] % count:
            raise ValueError  # equal parts
        sizes = (x[axis] // count,) * count
    elif sizes is None:
        part = -(-x[axis] // count)
        sizes = (*(part,) * (count - 1), x[axis] - part * (count - 1))
    for size in sizes:
        yield (*x[:axis], size, *x[axis + 1 :])


def _slice(g: RuleInputs) -> Iterator[Dims]:
    found = list(g.dims(0))
    starts, ends = g.numbers(1, "starts") or (), g.numbers(2, "ends") or ()
    axes = g.numbers(3, "axes") or tuple(range(len(starts)))
    steps = g.numbers(4) or (1,) * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        found[axis] = Span.of_slice(start, end, step, found[axis]).size
    yield tuple(found)


def _gather(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    axis = g.axis(0, len(x))
    yield (*x[:axis], *g.dims(1), *x[axis + 1 :])


def _gather_nd(g: RuleInputs) -> Iterator[Dims]:
    x, index = g.dims(0), g.dims(1)
    yield (*index[:-1], *x[g.integer("batch_dims", 0) + int(index[-1]) :])


def _reduced(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    axes = g.numbers(1, "axes")
    if not axes:
        axes = () if g.integer("noop_with_empty_axes", 0) else tuple(range(len(x)))
    yield _without(g, axes)


def _without(g: RuleInputs, axes: Dims) -> Dims:
    """The first input's sizes without these axes, which are 1 where the node keeps them."""
    x = g.dims(0)
    gone = {axis + len(x) if axis < 0 else axis for axis in axes}
    if g.integer("keepdims", g.node.op_type != "Squeeze"):
        return tuple(1 if i in gone else size for i, size in enumerate(x))
    return tuple(size for i, size in enumerate(x) if i not in gone)


def _top_k(g: RuleInputs) -> Iterator[Dims]:
    x = list(g.dims(0))
    k = g.numbers(1)
    x[g.axis(-1, len(x))] = k[0] if k else g.integer("k", 0)
    yield from (tuple(x), tuple(x))


def _squeeze(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    axes = g.numbers(1, "axes")
    yield _without(g, tuple(i for i, s in enumerate(x) if s == 1) if axes is None else axes)


def _unsqueeze(g: RuleInputs) -> Iterator[Dims]:
    x, axes = list(g.dims(0)), g.numbers(1, "axes") or ()
    rank = len(x) + len(axes)
    for axis in sorted(axis + rank if axis < 0 else axis for axis in axes):
        x.insert(axis, 1)
    yield tuple(x)


def _flatten(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    axis = g.axis(1, len(x))
    yield prod(x[:axis]), prod(x[axis:])


def _reshape(g: RuleInputs) -> Iterator[Dims]:
    x, shape = g.dims(0), list(g.numbers(1, "shape") or ())
    copied = not g.integer("allowzero", 0)
    shape = [x[i] if copied and at_present(s) == 0 else s for i, s in enumerate(shape)]
    open_axes = [i for i, s in enumerate(shape) if at_present(s) == -1]
    for axis in open_axes:
        shape[axis] = prod(x) // prod(s for i, s in enumerate(shape) if i != axis)
    if prod(shape) != prod(x):
        raise ValueError
    yield tuple(shape)


def _tile(g: RuleInputs) -> Iterator[Dims]:
    yield tuple(size * n for size, n in zip(g.dims(0), g.numbers(1) or (), strict=True))


def _range(g: RuleInputs) -> Iterator[Dims]:
    (start,), (limit,), (delta,) = (g.numbers(i) or () for i in range(3))
    count = -((start - limit) // delta)
    yield (count if count > 0 else 0,)


def _one_hot(g: RuleInputs) -> Iterator[Dims]:
    x, depth = list(g.dims(0)), g.numbers(1) or ()
    x.insert(g.axis(-1, len(x) + 1), depth[0])
    yield tuple(x)


def _pad(g: RuleInputs) -> Iterator[Dims]:
    x, pads = list(g.dims(0)), g.numbers(1, "pads") or ()
    axes = (g.numbers(3) if g.node.since >= 18 else None) or tuple(range(len(x)))
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        x[axis] += before + after
    yield tuple(x)


def _windows(g: RuleInputs, sizes: Dims, kernel: Dims) -> Dims:
    """The numbers of windows along the spatial axes. Source: ONNX Conv-22, MaxPool-22."""
    count = len(sizes)
    strides, dilations = (g.integers(n, (1,) * count) for n in ("strides", "dilations"))
    pads, auto = g.integers("pads", (0,) * 2 * count), g.node.attributes.get("auto_pad", "NOTSET")
    found = []
    for i, size in enumerate(sizes):
        extent = (kernel[i] - 1) * dilations[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            found.append((size + strides[i] - 1) // strides[i])
            continue
        rest = size - extent + (0 if auto == "VALID" else pads[i] + pads[count + i])
        if rest < 0:
            raise ValueError  # ONNX counts one window
        more = strides[i] - 1 if g.integer("ceil_mode", 0) else 0
        found.append((rest + more) // strides[i] + 1)
    return tuple(found)


def _conv(g: RuleInputs) -> Iterator[Dims]:
    x, w = g.dims(0), g.dims(1)
    yield (x[0], w[0], *_windows(g, x[2:], g.integers("kernel_shape", w[2:])))


def _pool(g: RuleInputs) -> Iterator[Dims]:
    x = g.dims(0)
    found = (*x[:2], *_windows(g, x[2:], g.integers("kernel_shape")))
    yield from (found, found)


def _conv_transpose(g: RuleInputs) -> Iterator[Dims]:
    x, w = g.dims(0), g.dims(1)
    count = len(x) - 2
    if g.integers("output_shape"):
        raise ValueError
    strides, dilations = (g.integers(n, (1,) * count) for n in ("strides", "dilations"))
    pads, more = g.integers("pads", (0,) * 2 * count), g.integers("output_padding", (0,) * count)
    kernel, auto = g.integers("kernel_shape", w[2:]), g.node.attributes.get("auto_pad", "NOTSET")
    spatial = []
    for i, size in enumerate(x[2:]):
        full = (size - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + more[i]
        same = auto in ("SAME_UPPER", "SAME_LOWER")
        cut = 0 if auto == "VALID" else pads[i] + pads[count + i]
        spatial.append(size * strides[i] if same else full - cut)
    yield (x[0], w[1] * g.integer("group", 1), *spatial)


def _resize(g: RuleInputs) -> Iterator[Dims]:
    """By whole factors, or to given sizes; others depend on how floats are rounded."""
    x = g.dims(0)
    if g.node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise ValueError
    sizes = g.numbers(3) if g.node.since > 10 else None
    if sizes:
        given = dict(zip(_resized_axes(g, len(x)), sizes, strict=True))
    else:
        given = {axis: _scaled(x[axis], scale) for axis, scale in scales_of(g, len(x)).items()}
    yield tuple(given.get(axis, size) for axis, size in enumerate(x))


def scales_of(g: RuleInputs, rank: int) -> dict[int, float]:
    """The scales of a Resize or Upsample by axis; TypeError or ValueError if they are unknown."""
    at = 1 if g.node.since == 10 or g.node.op_type == "Upsample" else 2
    scales = g.reals(at, "scales")
    return dict(zip(_resized_axes(g, rank), scales, strict=True)) if scales else {}


def _resized_axes(g: RuleInputs, rank: int) -> Dims:
    return tuple(a + rank if a < 0 else a for a in g.integers("axes", tuple(range(rank))))


def _scaled(size: int, scale: float) -> int:
    """A size times a float32 that is exact in sixteenths, rounded down."""
    sixteenths = scale * 16
    if not sixteenths.is_integer():
        raise ValueError
    return size * int(sixteenths) // 16


def _recurrent(g: RuleInputs) -> Iterator[Dims]:
    x, r = g.dims(0), g.dims(2)
    directions, units = g.dims(1)[0], r[-1]
    if g.integer("layout", 0):
        yield (x[0], x[1], directions, units)
        state: Dims = (x[0], directions, units)
    else:
        yield (x[0], directions, x[1], units)
        state = (directions, x[1], units)
    yield from (state, state)


def _depth_to_space(g: RuleInputs) -> Iterator[Dims]:
    (n, c, h, w), block = g.dims(0), g.integer("blocksize", 1)
    yield n, c // (block * block), h * block, w * block


def _space_to_depth(g: RuleInputs) -> Iterator[Dims]:
    (n, c, h, w), block = g.dims(0), g.integer("blocksize", 1)
    yield n, c * block * block, h // block, w // block


def _shape(g: RuleInputs) -> Iterator[Dims]:
    rank = len(g.dims(0))
    yield (Span.of_slice(g.integer("start", 0), g.integer("end", rank), 1, rank).size,)


def _einsum(g: RuleInputs) -> Iterator[Dims]:
    equation = str(g.node.attributes["equation"]).replace(" ", "")
    left, _, right = equation.partition("->")
    sizes: dict[str, int] = {}
    for term, dims in zip(left.split(","), g.every(), strict=True):
        for letter, size in zip(term, dims, strict=True):
            sizes[letter] = broadcast((sizes.get(letter, 1),), (size,))[0]
    once = sorted(letter for letter in sizes if left.count(letter) == 1)
    yield tuple(sizes[letter] for letter in (right if "->" in equation else once))


def _attention(g: RuleInputs) -> Iterator[Dims | None]:
    """Attention-23: the output, and the keys and values with the past ones before them."""
    q, k, v = (g.dims(i) for i in range(3))
    heads = g.integer("kv_num_heads", 0)
    if len(q) == 3:
        own = g.integer("q_num_heads", 1)
        yield (*q[:2], own * (v[2] // heads))
        k, v = ((x[0], heads, x[1], x[2] // heads) for x in (k, v))
    else:
        yield (*q[:3], v[3])
    for i, x in ((4, k), (5, v)):
        yield (*x[:2], x[2] + g.dims(i)[2], x[3]) if g.has(i) else x


_FIRST = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "BitwiseNot"),
    *("Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos", "Cosh", "CumSum", "DequantizeLinear"),
    *("Dropout", "Elu", "Erf", "Exp", "EyeLike", "Floor", "Gelu", "GroupNormalization"),
    *("HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "IsInf", "IsNaN"),
    *("LRN", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "MeanVarianceNormalization"),
    *("Mish", "Neg", "Not", "QuantizeLinear", "RMSNormalization", "Reciprocal", "Relu"),
    *("ReverseSequence", "RotaryEmbedding", "Round", "ScatterElements", "ScatterND", "Scatter"),
    *("Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign"),
    *("Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Trilu"),
)
_ELEMENTWISE = (
    *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal"),
    *("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul"),
    *("Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
)
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_RULES: Mapping[tuple[str, str], ShapeRule] = {
    **{("", name): lambda g: [g.dims(0)] for name in _FIRST},
    **{("", name): lambda g: [broadcast(*g.every())] for name in _ELEMENTWISE},
    **{("", f"Reduce{name}"): _reduced for name in _REDUCTIONS},
    **{("", name): _pool for name in ("AveragePool", "LpPool", "MaxPool")},
    **{
        ("", f"Global{name}Pool"): lambda g: [(*g.dims(0)[:2], *(1,) * len(g.dims(0)[2:]))]
        for name in ("Average", "Lp", "Max")
    },
    **{("", name): _matmul for name in ("MatMul", "MatMulInteger")},
    **{("", name): _conv for name in ("Conv", "ConvInteger")},
    **{("", name): _recurrent for name in ("GRU", "LSTM", "RNN")},
    **{
        ("", f"Arg{name}"): lambda g: [_without(g, (g.integer("axis", 0),))]
        for name in ("Max", "Min")
    },
    **{("", name): _resize for name in ("Resize", "Upsample")},
    ("", "Attention"): _attention,
    ("", "Concat"): _concat,
    ("", "ConstantOfShape"): lambda g: [g.numbers(0) or ()],
    ("", "ConvTranspose"): _conv_transpose,
    ("", "DepthToSpace"): _depth_to_space,
    ("", "DynamicQuantizeLinear"): lambda g: [g.dims(0), (), ()],
    ("", "Einsum"): _einsum,
    ("", "Expand"): lambda g: [broadcast(g.dims(0), g.numbers(1) or ())],
    ("", "Flatten"): _flatten,
    ("", "Gather"): _gather,
    ("", "GatherElements"): lambda g: [g.dims(1)],
    ("", "GatherND"): _gather_nd,
    ("", "Gemm"): _gemm,
    ("", "LayerNormalization"): _normalized,
    ("", "OneHot"): _one_hot,
    ("", "Pad"): _pad,
    ("", "Range"): _range,
    ("", "Reshape"): _reshape,
    ("", "Shape"): _shape,
    ("", "Size"): lambda _: [()],
    ("", "Slice"): _slice,
    ("", "SpaceToDepth"): _space_to_depth,
    ("", "Split"): _split,
    ("", "Squeeze"): _squeeze,
    ("", "Tile"): _tile,
    ("", "TopK"): _top_k,
    ("", "Transpose"): _transpose,
    ("", "Unsqueeze"): _unsqueeze,
}
"""Rules by domain and operator; each yields the sizes of the outputs in their order.

Source: the operators' shape inference in ONNX's schemas.
"""
