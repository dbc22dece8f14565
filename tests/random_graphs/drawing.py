"""A random graph while it is drawn: values known so far, and nodes added to them one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper, shape_inference

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
TYPES = (*FLOATS, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
SIZES = (1, 1, 2, 3, 4, 5, 7)
MOST_ELEMENTS = 1500
IR_VERSION = 8
# Functions whose types ONNX does not infer from their inputs.
_LIKE_INPUT_0 = ("GroupNormalization", "MeanVarianceNormalization")


class Unfit(Exception):
    """The drawn node is invalid: another is drawn instead."""


@dataclass(frozen=True)
class Known:
    """A value: `exact` when every correct implementation gives the same bits."""

    name: str
    dtype: int
    shape: tuple[int, ...]
    exact: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class Drawing:
    """Builds one graph from one seed.

    half   whether its floats are float16
    """

    seed: int
    opset: int = 21
    half: bool = False
    values: list[Known] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[Known] = field(default_factory=list)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    domains: set[str] = field(default_factory=set)
    captured: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.numbers = np.random.default_rng(self.seed)

    @property
    def float(self) -> int:
        return TensorProto.FLOAT16 if self.half else TensorProto.FLOAT

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def shape(self, least: int = 0, most: int = 6) -> tuple[int, ...]:
        """Sizes of a rank between the two; most ranks drawn are 1 to 4."""
        ranks = [r for r in (0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6) if least <= r <= most]
        while True:
            drawn = tuple(self.random.choice(SIZES) for _ in range(self.random.choice(ranks)))
            if prod(drawn) <= MOST_ELEMENTS:
                return drawn

    def type_of(self, op_type: str, only: Sequence[int] = TYPES) -> int:
        """An element type that the operator takes at input 0, mostly float."""
        schema = defs.get_schema(op_type, self.opset, "")
        allowed = set(schema.inputs[0].types)
        names = {f"tensor({helper.tensor_dtype_to_string(t)[12:].lower()})": t for t in only}
        wanted = [
            t for n, t in names.items() if n in allowed and (t == self.float or t not in FLOATS)
        ]
        if not wanted:
            raise Unfit(op_type)
        if self.float in wanted and self.chance(0.75):
            return self.float
        return self.random.choice(wanted)

    def some(
        self, dtype: int | None = None, least: int = 0, most: int = 6, *, exact: bool = False
    ) -> Known:
        """A value that there is, or a new one."""
        dtype = self.float if dtype is None else dtype
        fit = [
            v
            for v in self.values
            if v.dtype == dtype and least <= v.rank <= most and (v.exact or not exact)
        ]
        if fit and self.chance(0.75):
            return self.random.choice(fit[-6:])
        return self.new(dtype, self.shape(least, most))

    def like(self, dtype: int, shape: Sequence[int], *, exact: bool = False) -> Known:
        """A value of that very type and shape."""
        fit = [
            v
            for v in self.values
            if (v.dtype, v.shape) == (dtype, tuple(shape)) and (v.exact or not exact)
        ]
        return self.random.choice(fit) if fit and self.chance(0.6) else self.new(dtype, shape)

    def broadcast(self, x: Known, *, exact: bool = False) -> Known:
        """A value that broadcasts with x, either way."""
        sizes = [1 if self.chance(0.25) else d for d in x.shape]
        sizes = sizes[self.random.choice((0, 0, 0, 1, len(sizes))) :]
        if self.chance(0.1) and len(sizes) < 6:
            sizes = [self.random.choice((1, 2)), *sizes]
        return self.like(x.dtype, sizes, exact=exact)

    def new(self, dtype: int, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Known:
        """A graph input or, more seldom, an initializer of drawn numbers."""
        array = self.draw(dtype, shape, low, high)
        if self.chance(0.3):
            return self.constant(array)
        known = Known(f"x{len(self.inputs)}", dtype, tuple(shape))
        self.inputs.append(known)
        self.values.append(known)
        self.feeds[known.name] = array
        return known

    def weights(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Known:
        """Float parameters, mostly constant."""
        if self.chance(0.85):
            return self.constant(self.draw(self.float, shape, low, high))
        return self.new(self.float, shape, low, high)

    def draw(self, dtype: int, shape: Sequence[int], low: float, high: float) -> np.ndarray:
        """Numbers of that type; of floats half are multiples of 1/64, which are exact in half."""
        to = helper.tensor_dtype_to_np_dtype(dtype)
        if dtype == TensorProto.BOOL:
            return np.asarray(self.numbers.random(shape) < 0.5)
        if dtype not in FLOATS:
            return np.asarray(self.numbers.integers(round(low * 4), round(high * 4) + 1, shape), to)
        numbers = self.numbers.uniform(low, high, shape)
        if self.chance(0.5):
            numbers = np.clip(np.rint(numbers * 64) / 64, low, high)
        return np.asarray(numbers, to)

    def constant(self, array: np.ndarray) -> Known:
        """An initializer, which equal arrays share, or the output of a Constant node."""
        for name, there in self.initializers.items():
            same = (there.dtype, there.shape) == (array.dtype, array.shape)
            if same and np.array_equal(there, array):
                return Known(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        name = f"c{len(self.initializers)}_{len(self.nodes)}"
        known = Known(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        if self.chance(0.1):
            value = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [name], value=value))
        else:
            self.initializers[name] = array
        return known

    def ints(self, *numbers: int) -> Known:
        """A constant list of int64: a shape, axes, pads."""
        return self.constant(np.array(numbers, np.int64))

    def add(
        self,
        op_type: str,
        *given: Known | None,
        outputs: int = 1,
        exact: bool = False,
        domain: str = "",
        **attributes: object,
    ) -> list[Known]:
        """One more node; raises Unfit unless ONNX infers the shapes of its outputs."""
        names = [v.name if v is not None else "" for v in given]
        while names and not names[-1] and self.chance(0.5):
            names.pop()
        outs = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        # a node may be unnamed, and may have the name of some other node's output
        called = self.random.choice(("", "", f"n{len(self.nodes)}", f"v{len(self.nodes) + 1}_0"))
        node = helper.make_node(op_type, names, outs, called, domain=domain, **attributes)
        types = self._types(node, [v for v in given if v is not None])
        exact = exact and all(v.exact for v in given if v is not None)
        made = [Known(o, *types[o], exact) for o in outs if o in types]
        if any(prod(v.shape) > 4 * MOST_ELEMENTS or min(v.shape, default=1) < 1 for v in made):
            raise Unfit(op_type)
        self.nodes.append(node)
        self.values.extend(v for v in made if v.dtype in TYPES)
        self.domains.add(domain)
        return made

    def _types(
        self, node: onnx.NodeProto, given: Sequence[Known]
    ) -> dict[str, tuple[int, tuple[int, ...]]]:
        # com.microsoft's here all keep the type and shape of input 0
        if node.domain or node.op_type in _LIKE_INPUT_0:
            return {node.output[0]: (given[0].dtype, given[0].shape)}
        schema = defs.get_schema(node.op_type, self.opset, "")
        inputs = {v.name: helper.make_tensor_type_proto(v.dtype, v.shape) for v in given}
        data = {
            v.name: numpy_helper.from_array(self.initializers[v.name], v.name)
            for v in given
            if v.name in self.initializers
        }
        opsets = [helper.make_opsetid("", self.opset)]
        try:
            found = shape_inference.infer_node_outputs(
                schema, node, inputs, data, opset_imports=opsets, ir_version=IR_VERSION
            )
        except Exception as error:  # onnx raises its own errors of several kinds
            raise Unfit(f"{node.op_type}: {error}") from None
        types = {}
        for name, found_type in found.items():
            tensor = found_type.tensor_type
            known = all(d.HasField("dim_value") for d in tensor.shape.dim)
            if not (known and tensor.HasField("shape")):
                raise Unfit(f"{node.op_type}: {name} has no known shape")
            types[name] = (tensor.elem_type, tuple(d.dim_value for d in tensor.shape.dim))
        if len(types) < sum(bool(o) for o in node.output):
            raise Unfit(node.op_type)
        return types

    def either(self, x: Known, then: str, otherwise: str) -> None:
        """An If on a condition that is fed; each branch is one operator on x, from outside."""
        output = f"v{len(self.nodes)}_0"

        def branch(op_type: str) -> onnx.GraphProto:
            inner = f"{output}_{op_type}"
            info = helper.make_tensor_value_info(inner, x.dtype, x.shape)
            return helper.make_graph(
                [helper.make_node(op_type, [x.name], [inner])], op_type, [], [info]
            )

        condition = self.new(TensorProto.BOOL, ())
        branches = {"then_branch": branch(then), "else_branch": branch(otherwise)}
        self.nodes.append(helper.make_node("If", [condition.name], [output], **branches))
        self.values.append(Known(output, x.dtype, x.shape, x.exact))
        self.captured.add(x.name)

    def model(self) -> onnx.ModelProto:
        """The graph: what nothing reads leaves it, and of the rest some does too."""
        read = {name for n in self.nodes for name in n.input} | self.captured
        written = {o for n in self.nodes for o in n.output}
        leaving = [
            v
            for v in self.values
            if v.name in written and (v.name not in read or self.chance(0.25))
        ]
        if self.inputs and self.chance(0.15):
            leaving.append(self.random.choice(self.inputs))

        def infos(values: Sequence[Known]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(v.name, v.dtype, v.shape) for v in values]

        constants = [numpy_helper.from_array(a, n) for n, a in self.initializers.items()]
        graph = helper.make_graph(
            self.nodes, f"seed {self.seed}", infos(self.inputs), infos(leaving), constants
        )
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(d, 1) for d in sorted(self.domains) if d]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
