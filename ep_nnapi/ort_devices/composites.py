"""Composites as ONNX nodes: what the ONNX model had before it was lowered to NNAPI's operations.

A composite that has no rule here, or whose tensors are not as its rule needs them, is computed by
its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.model import Composite, CompositePort, Data, Operand
from ep_nnapi.nnapi.sizes import identical
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32
from ep_nnapi.ort_devices.graph import CONTRIB, Inexpressible, OnnxGraph, require
from ep_nnapi.ort_devices.lowering.normalization import unshifted
from ep_nnapi.ort_devices.lowering.reduction import IMAGES, mean_of_image
from ep_nnapi.ort_devices.newest_form import SPECIAL, has_newest_form, newest_form
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.scope import (
    Q8S,
    Perm,
    Scope,
    Shape,
    identity,
    inverse,
    is_coded,
    permuted,
)

_OWN_NAMES = {"RMSNormalization": "SimplifiedLayerNormalization"}
"""Operators that ONNX Runtime has under another name, which needs no newer opset."""


@dataclass(frozen=True, slots=True)
class Group:
    """A composite in a scope."""

    scope: Scope
    composite: Composite
    kernels: Kernels

    @property
    def graph(self) -> OnnxGraph:
        """The graph that it becomes a part of."""
        return self.scope.graph

    def given(self, i: int) -> bool:
        """True if input `i` is given."""
        return i < len(self.composite.inputs) and self.composite.inputs[i] is not None

    def input(self, i: int) -> CompositePort:
        """Input `i`; raises Inexpressible if it is omitted."""
        port = self.composite.inputs[i] if i < len(self.composite.inputs) else None
        if port is None:
            raise Inexpressible(f"input {i} is missing")
        return port

    @property
    def output(self) -> CompositePort:
        """The first output; raises Inexpressible if nothing reads it."""
        port = self.composite.outputs[0]
        if port is None:
            raise Inexpressible("the output is not read")
        return port

    def index(self, port: CompositePort) -> int:
        """The operand of a port; raises Inexpressible for a constant of the composite's own."""
        require(isinstance(port.operand, int), "the members lack the constant")
        return port.operand if isinstance(port.operand, int) else 0

    def operand(self, port: CompositePort) -> Operand:
        """Type and quantization of an input or output."""
        given = port.operand
        return given if isinstance(given, Operand) else self.scope.operand(given)

    def attribute(self, name: str, default: int) -> int:
        """An integer attribute."""
        found = self.composite.attributes.get(name, default)
        return found if isinstance(found, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute of integers; () if there is none."""
        found = self.composite.attributes.get(name, ())
        return tuple(n for n in found if isinstance(n, int)) if isinstance(found, tuple) else ()

    def value(self, i: int, *, real: bool = True) -> str:
        """Input `i` as ONNX has it, "" if it is omitted; a number may be [1]."""
        if not self.given(i):
            return ""
        port = self.input(i)
        if isinstance(port.operand, Operand):
            value = self.scope.owned(port.operand)
        elif port.shape == () and port.operand in self.scope.numbers:
            return self.scope.numbers[port.operand]
        else:
            value = self.scope.value(port.operand, layout(port), real=real)
        stored = self.stored_shape(port)
        if identical(stored, port.shape) or (identical(stored, (1,)) and port.shape == ()):
            return value
        return self.graph.reshape(value, port.shape)

    def values(self) -> list[str]:
        """All inputs as ONNX has them, as real numbers."""
        return [self.value(i) for i in range(len(self.composite.inputs))]

    def own_type(self, i: int) -> str:
        """The constant input `i`, not converted to another type."""
        operand = self.operand(self.input(i))
        return self.graph.constants.lazy(("own type", id(operand.value)), lambda: operand.array)

    def stored_shape(self, port: CompositePort) -> Shape:
        """The shape of a port's operand in the layout of ONNX."""
        given = port.operand
        dims = given.dimensions if isinstance(given, Operand) else self.scope.shape(given)
        return permuted(dims, layout(port) or identity(len(dims)))

    def same(self, *inputs: str, outputs: int = 1) -> list[str]:
        """Add the operator's own node; returns its outputs."""
        name = self.composite.name
        domain, _, op_type = _OWN_NAMES.get(name, name).rpartition(":")
        attributes = self.composite.attributes
        return self.graph.many(op_type, outputs, *inputs, domain=domain, **attributes)

    def as_node(self, inputs: Sequence[str] | None = None) -> None:
        """Define all outputs by the operator's own node, of its inputs as ONNX has them."""
        given, outputs = inputs or self.values(), self.composite.outputs
        count = 1 + max(i for i, port in enumerate(outputs) if port is not None)
        for i, value in enumerate(self.same(*given, outputs=count)):
            self.deliver(value, i)

    def deliver(self, value: str, i: int = 0, *, real: bool = True) -> None:
        """Define output `i` by what ONNX's operator computes; real numbers are quantized."""
        port = self.composite.outputs[i]
        if port is not None:
            value = self.activated(value)
            if not identical(self.stored_shape(port), port.shape):
                value = self.graph.reshape(value, self.stored_shape(port))
            self.define(port, value, layout(port), real=real)

    def define(
        self, port: CompositePort, value: str, perm: Perm | None, *, real: bool = True
    ) -> None:
        """Define an output in a layout of its operand."""
        operand = self.operand(port)
        value = self.scope.quantized(value, operand) if real and is_coded(operand) else value
        self.scope.define(self.index(port), value, perm, real=False)

    def activated(self, value: str) -> str:
        """Real numbers after the fused activation."""
        return self.graph.activated(value, self.composite.activation)


def layout(port: CompositePort) -> Perm | None:
    """The layout in which an operand is as ONNX has it; None if that is its own."""
    return None if port.perm == identity(len(port.perm)) else inverse(port.perm)


@dataclass(frozen=True, slots=True)
class NodeRule:
    """How a composite becomes a node: `lower`, if `accepts`; both may raise Inexpressible."""

    lower: Callable[[Group], None]
    accepts: Callable[[Group], bool] = lambda _: True


def wholes(scope: Scope, kernels: Kernels) -> Iterator[Group]:
    """Yields the composites of a model that become nodes."""
    groups = (Group(scope, composite, kernels) for composite in scope.model.composites)
    yield from (group for group in groups if group.composite.name in RULES and _accepted(group))


def _accepted(group: Group) -> bool:
    """True if the rule holds, and all shapes are known."""
    try:
        for port in (*group.composite.inputs, *group.composite.outputs):
            if port is not None:
                group.stored_shape(port)
        return RULES[group.composite.name].accepts(group)
    except Inexpressible:
        return False


def _packed(group: Group, *, int8: bool = True) -> None:
    """The same node, whose constants of 8 bits stay as they are; without `int8`, as uint8."""
    inputs = range(len(group.composite.inputs))
    packed = [group.given(i) and is_coded(group.operand(group.input(i))) for i in inputs]
    kept = [is_byte and int8 for is_byte in packed]
    given = [group.own_type(i) if kept[i] else group.value(i, real=not packed[i]) for i in inputs]
    if group.input(1).shape == ():  # a single index, which leaves no axis
        given[1] = group.graph.reshape(given[1], ())
    group.as_node(given)


def _has_kernel(group: Group) -> bool:
    """False for 8 bits with zero points that are real numbers."""
    bits, zero = group.attribute("bits", 4), group.given(3)
    return bits == 4 or not zero or is_coded(group.operand(group.input(3)))


_INT32_INPUTS = {
    f"{CONTRIB}:GroupQueryAttention": (5, 6),
    f"{CONTRIB}:MultiHeadAttention": (4,),
    "TensorScatter": (0, 1),
}


def _is_one_cache(group: Group) -> bool:
    """True if the cache is the past and the new rows, or keeps its size, as the kernel demands.

    Sizes that are symbols of their own are so in a run, but not in a trial.
    """
    rows, outputs = group.input(0).shape[1], group.composite.outputs
    past = group.input(3).shape[2] if group.given(3) else 0
    cache = next((port.shape[2] for port in outputs[1:3] if port is not None), None)
    return cache is None or any(identical((cache,), (n,)) for n in (past + rows, past))


def _newer(group: Group) -> None:
    """The same node, whose schema may be newer than those of the nodes around it."""
    group.graph.opset = max(group.graph.opset, group.composite.since)
    given, narrow = group.values(), _INT32_INPUTS.get(group.composite.name, ())
    for i, value in enumerate(given):
        if value and group.operand(group.input(i)).type is I32 and i not in narrow:
            given[i] = group.graph.cast(value, TensorProto.INT64)
    group.as_node(given)


def _of_one(group: Group) -> None:
    """The same node, of one tensor in any layout."""
    x, y = group.input(0), group.output
    alike = (x.perm, group.stored_shape(x)) == (y.perm, group.stored_shape(y))
    if len(group.composite.inputs) > 1 or not alike:
        group.as_node()
        return
    perm = group.scope.layout(group.index(x))
    given = group.scope.value(group.index(x), perm, real=True)
    group.define(y, group.activated(*group.same(given)), perm)


def _normalizes_last(group: Group) -> bool:
    """True if scale and shift have the shape of the axes from `axis` on."""
    shape = group.input(0).shape[group.attribute("axis", -1) :]
    return all(group.input(i).shape == shape for i in (1, 2) if group.given(i))


_BLOCK = 16
"""Images of that many channels or a multiple have a blocked layout on every processor."""


def _is_blocked(group: Group) -> bool:
    """True for channels of images, which ONNX Runtime has in the convolutions' blocked layout."""
    shape = group.input(0).shape
    statistics = [group.input(i).shape for i in range(1, 5)]
    image = len(shape) == 4 and group.composite.since > 8  # before it has other attributes
    return image and not shape[1] % _BLOCK and set(statistics) == {shape[1:2]}


def _dynamic_quantization(group: Group) -> None:
    """DynamicQuantizeLinear; scale and zero point are numbers, in NNAPI tensors of one element."""
    shape = _rows(group) if _is_read_by_rows(group) else group.input(0).shape
    given = group.graph.reshape(group.value(0), shape)
    found = group.graph.many("DynamicQuantizeLinear", 3, given)
    group.graph.shapes[found[0]] = shape
    group.deliver(found[0], real=False)
    for port, value in zip(group.composite.outputs[1:], found[1:], strict=True):
        if port is not None:
            group.scope.define_number(group.index(port), value)


def _rows(group: Group) -> Shape:
    """The shape of input 0 as a matrix."""
    *batch, depth = group.input(0).shape
    return prod(batch), depth


def _is_read_by_rows(group: Group) -> bool:
    """True if the quantized numbers are only multiplied, as a matrix."""
    scope = group.scope
    readers = scope.composites_of(group.index(group.output))
    products = [Group(scope, c, group.kernels) for c in readers if c.name == "MatMulInteger"]
    return 0 < len(products) == len(readers) and all(map(_is_matrix, products))


def _is_matrix(group: Group) -> bool:
    """True if the result is stored as a matrix."""
    return len(group.stored_shape(group.output)) == 2


def _has_weights(group: Group) -> bool:
    """True if the weights and their zero point are constants."""
    ports = [group.input(i) for i in (1, 3) if group.given(i)]
    return all(isinstance(group.operand(port).value, Data) for port in ports)


def _product_of_integers(group: Group) -> None:
    """MatMulInteger; int8 weights stay so where their products do not saturate."""
    given = [group.value(i, real=False) for i in range(4)]
    if _is_matrix(group):
        given[0] = group.graph.reshape(given[0], _rows(group))
    if group.operand(group.input(1)).type is Q8S:
        if group.kernels.int8_weights:
            given[1] = group.own_type(1)
            given[3] = group.own_type(3) if group.given(3) else ""
        elif not group.given(3):
            given[3] = group.graph.constants.array(np.array(128, np.uint8))
    total = group.graph.node("MatMulInteger", *given)
    group.define(group.output, total, None) if _is_matrix(group) else group.deliver(total)


def _convolution_of_integers(group: Group) -> None:
    """A convolution of the same integers as floats, whose sums are exact."""
    one = group.graph.constants.array(np.array(1, np.float32))
    zeros = [group.value(2, real=False)] if group.given(2) else []
    image = group.graph.node("DequantizeLinear", group.value(0, real=False), one, *zeros)
    taps = group.operand(group.input(1))
    less = group.operand(group.input(3)).array.astype(np.float32) if group.given(3) else None

    def centred() -> Array:
        numbers: Array = taps.array.astype(np.float32)
        return numbers if less is None else numbers - less.reshape(-1, *[1] * (numbers.ndim - 1))

    weights = group.graph.constants.lazy(("centred", id(taps.value)), centred)
    total = group.graph.node("Conv", image, weights, domain="", **group.composite.attributes)
    group.deliver(group.graph.cast(total, TensorProto.INT32, exact_from=TensorProto.FLOAT))


_FROM_BOOL = {I32: TensorProto.INT32, F32: TensorProto.FLOAT, F16: TensorProto.FLOAT}


def _is_indicator(group: Group) -> bool:
    """True for numbers 1 and 0 made of booleans."""
    types = (group.operand(port).type for port in (group.input(0), group.output))
    return next(types) is BOOL8 and next(types) in _FROM_BOOL


def _indicator(group: Group) -> None:
    to = _FROM_BOOL[group.operand(group.output).type]
    group.deliver(group.graph.node("Cast", group.value(0), to=to))


def _same_numbers(group: Group) -> bool:
    """True if data and result are stored alike."""
    data, result = (group.operand(port) for port in (group.input(0), group.output))
    return (data.type, data.quantization) == (result.type, result.quantization)


def _gather(group: Group) -> None:
    """Gather, whose indexes may count from the end; a single one leaves no axis."""
    index = group.value(1)
    if group.input(1).shape == ():
        index = group.graph.reshape(index, ())
    (value,) = group.same(group.value(0, real=False), index)
    group.deliver(value, real=False)


def _is_quantized(group: Group) -> bool:
    return all(is_coded(group.operand(port)) for port in (group.input(0), group.output))


def _is_along_axis(group: Group) -> bool:
    """True for a softmax of codes along one axis, which it is as of opset 13."""
    x = group.input(0)
    as_onnx = layout(x) is None and group.stored_shape(x) == x.shape
    return _is_quantized(group) and group.composite.since >= 13 and as_onnx


def _softmax(group: Group) -> None:
    """Softmax quantized once."""
    given = unshifted(group.scope, group.index(group.input(0)))
    group.deliver(group.graph.node("Softmax", given, axis=group.attribute("axis", -1)))


def _pixels(group: Group) -> Shape:
    """The axes of an image's pixels in its operand."""
    return tuple(sorted(group.input(0).perm.index(axis) for axis in (2, 3)))


def _is_image(group: Group) -> bool:
    x = group.input(0)
    image = len(x.shape) == len(x.perm) == 4 and group.stored_shape(x) == x.shape
    return image and _is_quantized(group) and (4, _pixels(group)) in IMAGES


def _mean_of_image(group: Group) -> None:
    """The mean without real numbers between."""
    x, y = group.index(group.input(0)), group.index(group.output)
    mean_of_image(group.scope, x, y, _pixels(group))


_COUNTS_PADDING = 19
"""From this opset on AveragePool counts no elements beyond the padding."""


def _is_plain_pool(group: Group) -> bool:
    """True for a pool of real numbers whose windows all opsets place and count alike."""
    if _is_quantized(group) or group.attribute("ceil_mode", 0):
        return False
    counted = group.attribute("count_include_pad", 0) and group.composite.since < _COUNTS_PADDING
    return not counted or _fits(group)


def _fits(group: Group) -> bool:
    """True if the window of a pool is no larger than the padded image, as with SAME."""
    size = group.input(0).shape[2:]
    if str(group.composite.attributes.get("auto_pad", "")).startswith("SAME"):
        return True
    taps, pads = group.integers("kernel_shape"), group.integers("pads") or (0,) * 2 * len(size)
    around = zip(size, pads, pads[len(size) :], taps, strict=False)
    return all(n + before + after >= most for n, before, after, most in around)


_ITSELF, _SAME = NodeRule(Group.as_node), NodeRule(_of_one)
_NORM = NodeRule(Group.as_node, _normalizes_last)
RULES: Mapping[str, NodeRule] = {
    **dict.fromkeys(SPECIAL, NodeRule(newest_form, has_newest_form)),
    **dict.fromkeys(("Erf", "Gelu", "HardSigmoid", "Softplus"), _SAME),
    **{f"{CONTRIB}:{name}": _SAME for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")},
    **dict.fromkeys(("Attention", "RotaryEmbedding"), NodeRule(_newer)),
    **dict.fromkeys((*_INT32_INPUTS, f"{CONTRIB}:RotaryEmbedding"), NodeRule(_newer)),
    f"{CONTRIB}:GroupQueryAttention": NodeRule(_newer, _is_one_cache),
    **{f"{CONTRIB}:Skip{n}LayerNormalization": _ITSELF for n in ("", "Simplified")},
    f"{CONTRIB}:GatherBlockQuantized": NodeRule(_packed, _has_kernel),
    f"{CONTRIB}:MatMulNBits": NodeRule(_packed, _has_kernel),
    f"{CONTRIB}:DynamicQuantizeLSTM": NodeRule(  # whose int8 products may saturate
        lambda group: _packed(group, int8=group.kernels.int8_weights)
    ),
    **{f"{n}Normalization": _NORM for n in ("Layer", "RMS", "SimplifiedLayer")},
    "BatchNormalization": NodeRule(Group.as_node, _is_blocked),
    **dict.fromkeys(("AveragePool", "MaxPool"), NodeRule(Group.as_node, _is_plain_pool)),
    "Pow": NodeRule(Group.as_node, lambda group: group.operand(group.output).type in (F32, F16)),
    "GRU": NodeRule(Group.as_node, lambda group: not group.attribute("layout", 0)),
    "DynamicQuantizeLinear": NodeRule(
        _dynamic_quantization, lambda group: group.output is not None
    ),
    "MatMulInteger": NodeRule(_product_of_integers, _has_weights),
    "ConvInteger": NodeRule(_convolution_of_integers, _has_weights),
    "Cast": NodeRule(_indicator, _is_indicator),
    "Gather": NodeRule(_gather, _same_numbers),
    "Softmax": NodeRule(_softmax, _is_along_axis),
    "GlobalAveragePool": NodeRule(_mean_of_image, _is_image),
}
"""By the composite's name."""
