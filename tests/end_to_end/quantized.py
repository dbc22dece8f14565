"""QDQ models: built group by group, cut into layers, and compared in output quanta."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import ep_nnapi
from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.onnx_graph import nodes_of
from tests.products import computed, multiplies_integers

TYPES = {"u8": np.uint8, "s8": np.int8}
Scale = tuple[float, int]
"""Scale and zero point."""


@dataclass
class Qdq:
    """A model made of groups; values are named by their quantized tensors."""

    kind: str = "u8"
    opset: int = 21
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    scales: dict[str, Scale] = field(default_factory=dict)

    def constant(self, array: np.ndarray) -> str:
        """The name of a new initializer."""
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, shape: Sequence[int | str], scale: Scale) -> str:
        """A quantized input of the model."""
        name = f"in{len(self.inputs)}"
        code = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[self.kind]))
        self.inputs.append(helper.make_tensor_value_info(name, code, shape))
        self.scales[name] = scale
        return name

    def weights(
        self, array: np.ndarray, scale: float | np.ndarray, zero: int | None = 0, *, axis: int = 0
    ) -> str:
        """The dequantized form of a stored constant, per tensor or along `axis`."""
        zeros = None if zero is None else np.full(np.shape(scale), zero, array.dtype)
        return self._dequantized(self.constant(array), np.float32(scale), zeros, axis)

    def group(
        self,
        op_type: str,
        inputs: Sequence[str],
        scale: Scale,
        *,
        activation: tuple[str, Sequence[float]] | None = None,
        outputs: int = 1,
        **attributes: object,
    ) -> str:
        """The quantized output of an operator on quantized values and on constants' names."""
        given = [self._real(name) for name in inputs]
        made = [f"f{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, given, made, made[0], **attributes))
        if activation is not None:
            name, bounds = activation
            ends = [self.constant(np.float32(b)) for b in bounds]
            self.nodes.append(helper.make_node(name, [made[0], *ends], [f"{made[0]}_a"]))
            made = [f"{made[0]}_a"]
        stored = [self._quantized(name, scale) for name in made]
        return stored[0] if outputs == 1 else ",".join(stored)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The model with these quantized outputs."""
        code = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[self.kind]))
        outs = [helper.make_tensor_value_info(name, code, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "qdq", self.inputs, outs, self.tensors)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _real(self, name: str) -> str:
        if name not in self.scales:
            return name
        scale, zero = self.scales[name]
        return self._dequantized(name, np.float32(scale), TYPES[self.kind](zero), 0)

    def _dequantized(self, name: str, scale: object, zero: object, axis: int) -> str:
        out = f"d{len(self.nodes)}"
        given = [name, self.constant(np.asarray(scale))]
        given += [self.constant(np.asarray(zero))] if zero is not None else []
        self.nodes.append(helper.make_node("DequantizeLinear", given, [out], out, axis=axis))
        return out

    def _quantized(self, name: str, scale: Scale) -> str:
        out = f"q{len(self.nodes)}"
        step, zero = self.constant(np.float32(scale[0])), TYPES[self.kind](scale[1])
        given = [name, step, self.constant(np.asarray(zero))]
        self.nodes.append(helper.make_node("QuantizeLinear", given, [out], out))
        self.scales[out] = scale
        return out


def model(
    nodes: Sequence[onnx.NodeProto] | str,
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Mapping[str, int],
    constants: Mapping[str, np.ndarray | onnx.TensorProto],
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of nodes, or of their text: inputs by name with type and shape, outputs with type."""
    tensors = [
        a if isinstance(a, onnx.TensorProto) else numpy_helper.from_array(np.asarray(a), n)
        for n, a in constants.items()
    ]
    graph = helper.make_graph(
        nodes_of(nodes) if isinstance(nodes, str) else list(nodes),
        "qdq",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        tensors,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """A node named after its first output; `-` is an omitted input."""
    names = [n if n != "-" else "" for n in inputs.split()]
    return helper.make_node(
        op_type, names, outputs.split(), outputs.split(maxsplit=1)[0], **attributes
    )


def stored(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Numbers for the model's quantized inputs, over their whole range."""
    rng = np.random.default_rng(seed)
    found = {}
    for info in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        shape = [d.dim_value or 2 for d in info.type.tensor_type.shape.dim]
        limits = np.iinfo(dtype)
        found[info.name] = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return found


def plain_cpu() -> ort.SessionOptions:
    """The CPU provider without fused integer kernels: floats between Q and DQ, as ONNX says."""
    options = exact_options()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    return options


def on_cpu(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of the CPU provider without fused integer kernels, which may saturate.

    Where the model itself multiplies integers, ONNX's formulas stand in for its kernels.
    """
    if multiplies_integers(model):
        return computed(model, feeds)
    data = model.SerializeToString()
    session = session_of(data, plain_cpu())
    return session.run(None, dict(feeds))


def on_nnapi(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], **options: object
) -> list[np.ndarray]:
    """Outputs of a session on the provider; nodes on the CPU have no fused kernels either.

    With these, ONNX Runtime 1.31 fails to load some graphs of INT8 with opset 21.
    """
    chosen = plain_cpu()
    ep_nnapi.append_execution_provider(chosen, **options)
    return ort.InferenceSession(model.SerializeToString(), chosen).run(None, dict(feeds))


def apart(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> int:
    """By how many quanta stored tensors differ at most."""
    pairs = zip(got, want, strict=True)
    return max(
        (int(np.abs(a.astype(int) - b.astype(int)).max(initial=0)) for a, b in pairs), default=0
    )


def layers(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model cut at every quantized tensor: each is an output, and an input for its readers.

    So that one layer's rounding is seen, not what all layers before it make of theirs.
    """
    cut = onnx.ModelProto()
    cut.CopyFrom(onnx.shape_inference.infer_shapes(model))
    graph = cut.graph
    infos = {v.name: v for v in (*graph.value_info, *graph.output)}
    made = [n.output[0] for n in graph.node if n.op_type == "QuantizeLinear"]
    for node in graph.node:
        if node.op_type != "QuantizeLinear":
            node.input[:] = [f"{i} read" if i in made else i for i in node.input]
    outputs = [infos[name] for name in made if name in infos]
    read = {i for n in graph.node for i in n.input}
    for info in outputs:
        if f"{info.name} read" in read:
            seen = graph.input.add()
            seen.CopyFrom(info)
            seen.name = f"{info.name} read"
    del graph.output[:]
    graph.output.extend(outputs)
    del graph.value_info[:]
    return cut


def quantized_tensors(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Every quantized tensor that the CPU provider computes, as `layers` wants to be fed."""
    seen = onnx.ModelProto()
    seen.CopyFrom(onnx.shape_inference.infer_shapes(model))
    infos = {v.name: v for v in (*seen.graph.value_info, *seen.graph.output)}
    names = [n.output[0] for n in seen.graph.node if n.op_type == "QuantizeLinear"]
    del seen.graph.output[:]
    seen.graph.output.extend(infos[name] for name in names if name in infos)
    found = on_cpu(seen, feeds)
    return {f"{o.name} read": a for o, a in zip(seen.graph.output, found, strict=True)}


X: Scale = (0.05, 120)
Y: Scale = (0.06, 117)
SIGNED = 128  # what a zero point is less by for signed numbers


def scaled(kind: str, scale: Scale) -> Scale:
    return scale if kind == "u8" else (scale[0], scale[1] - SIGNED)


def unary(op_type: str, out: Scale = Y, shape: tuple[int, ...] = (1, 4, 6, 6), **attributes):
    """A group of one operator on one tensor."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        x = g.input(shape, scaled(kind, X))
        return g.model(g.group(op_type, [x], scaled(kind, out), **attributes))

    return build


def numbers(op_type: str, *constants: np.ndarray, out: Scale = Y, **attributes):
    """A group of one operator on a tensor and constants that are not quantized."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        given = [x, *(g.constant(c) for c in constants)]
        return g.model(g.group(op_type, given, scaled(kind, out), **attributes))

    return build


def several(op_type: str, count: int, out: Scale = (0.11, 110), **attributes):
    """A group of one operator on tensors of different scales."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        xs = [
            g.input((1, 4, 6, 6), scaled(kind, (0.03 + 0.02 * i, 100 + 9 * i)))
            for i in range(count)
        ]
        return g.model(g.group(op_type, xs, scaled(kind, out), **attributes))

    return build


@dataclass(frozen=True)
class Weights:
    """Quantization of a filter and its bias; by default INT8 per channel from 0, and INT32.

    bias   its scale, of what it should be
    zeros  whether zero points are given
    """

    kind: str = "s8"
    zero: int = 0
    channels: bool = True
    bias: float = 1.0
    zeros: bool = True


def convolution(
    op_type: str = "Conv",
    shape: tuple[int, ...] = (6, 4, 3, 3),
    activation=None,
    weights: Weights = Weights(),
    **attributes,
):
    """A group with quantized weights and an INT32 bias."""

    def build(kind: str) -> onnx.ModelProto:
        rng, g = np.random.default_rng(7), Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        axis = 1 if op_type == "ConvTranspose" else 0
        groups = int(attributes.get("group", 1)) if axis else 1
        units = shape[axis]
        steps = rng.uniform(0.005, 0.02, units).astype(np.float32)
        steps = steps if weights.channels else steps[0]
        least = 0 if weights.kind == "u8" else -127
        stored = rng.integers(least, 128, shape).astype(TYPES[weights.kind])
        zero = weights.zero if weights.zeros else None
        w = g.weights(stored, steps, zero, axis=axis)
        added = rng.integers(-900, 900, units * groups).astype(np.int32)
        step = np.tile(steps, groups) if weights.channels else steps
        b = g.weights(added, step * np.float32(X[0] * weights.bias), 0 if weights.zeros else None)
        out = scaled(kind, (0.2, 128))
        return g.model(g.group(op_type, [x, w, b], out, activation=activation, **attributes))

    return build


def product(op_type: str, per_channel: bool, **attributes):
    """A group with INT8 weights [K, N]."""

    def build(kind: str) -> onnx.ModelProto:
        rng, g = np.random.default_rng(7), Qdq(kind)
        x = g.input((5, 8), scaled(kind, X))
        steps = rng.uniform(0.005, 0.02, 6).astype(np.float32) if per_channel else 0.01
        w = g.weights(rng.integers(-127, 128, (8, 6)).astype(np.int8), steps, axis=1)
        return g.model(g.group(op_type, [x, w], scaled(kind, (0.1, 128)), **attributes))

    return build


ints = lambda *n: np.array(n, np.int64)  # noqa: E731
FIXED: Scale = (1 / 256, 0)
GROUPS: dict[str, Callable[[str], onnx.ModelProto]] = {
    "Conv": convolution(),
    "Conv strided": convolution(strides=[2, 2], pads=[1, 1, 1, 1]),
    "Conv dilated": convolution(dilations=[2, 2]),
    "Conv Relu": convolution(activation=("Relu", ())),
    "Conv Clip": convolution(activation=("Clip", (0, 6))),
    "Conv Clip odd": convolution(activation=("Clip", (-3.3, 7.7))),
    "Conv depthwise": convolution(shape=(4, 1, 3, 3), group=4),
    "Conv grouped": convolution(shape=(6, 2, 3, 3), group=2),
    "ConvTranspose": convolution("ConvTranspose", (4, 6, 3, 3), strides=[2, 2]),
    "ConvTranspose grouped": convolution("ConvTranspose", (4, 3, 3, 3), group=2),
    "ConvTranspose grouped per tensor": convolution(
        "ConvTranspose", (4, 3, 3, 3), weights=Weights(channels=False), group=2
    ),
    "Conv per tensor": convolution(weights=Weights(channels=False)),
    "Conv u8": convolution(weights=Weights("u8", 100, channels=False)),
    "Conv u8 per channel": convolution(weights=Weights("u8", 128)),
    "Conv u8 per channel off centre": convolution(weights=Weights("u8", 100)),
    "Conv s8 off centre": convolution(weights=Weights("s8", 3)),
    "Conv without zero points": convolution(weights=Weights(zeros=False)),
    "Conv bias of other steps": convolution(weights=Weights(bias=1.7)),
    "Conv bias of fine steps": convolution(weights=Weights(bias=1e-8)),
    "Conv bias beyond INT32": convolution(weights=Weights(bias=1e8)),
    "Gemm": product("Gemm", per_channel=False),
    "Gemm per channel": product("Gemm", per_channel=True),
    "MatMul": product("MatMul", per_channel=False),
    "MatMul per channel": product("MatMul", per_channel=True),
    "Add": several("Add", 2),
    "Sub": several("Sub", 2),
    "Mul": several("Mul", 2),
    "Div": several("Div", 2),
    "Max": several("Max", 2),
    "Min": several("Min", 3),
    "Sum": several("Sum", 3),
    "Mean": several("Mean", 2),
    "PRelu": several("PRelu", 2),
    "Concat": several("Concat", 3, axis=1),
    "Relu": unary("Relu"),
    "Relu of range": unary("Relu", (0.03, 0)),
    "Clip": numbers("Clip", np.float32(-1.5), np.float32(3)),
    "Clip 0 to 6": numbers("Clip", np.float32(0), np.float32(6)),
    "LeakyRelu": unary("LeakyRelu", alpha=0.1),
    "LeakyRelu rising": unary("LeakyRelu", alpha=-0.2),
    "Elu": unary("Elu"),
    "HardSwish": unary("HardSwish"),
    "HardSigmoid": unary("HardSigmoid", FIXED),
    "Sigmoid": unary("Sigmoid", FIXED),
    "Sigmoid coarser": unary("Sigmoid", (1 / 200, 3)),
    "Sigmoid finer": unary("Sigmoid", (1 / 1000, 3)),
    "Tanh": unary("Tanh", (1 / 128, 128)),
    "Tanh otherwise": unary("Tanh", (1 / 120, 120)),
    "Softmax": unary("Softmax", FIXED, axis=1),
    "Softmax otherwise": unary("Softmax", (0.002, 1), axis=-1),
    "LogSoftmax": unary("LogSoftmax", (0.1, 255), axis=-1),
    "MaxPool": unary("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool": unary("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool finer": unary("AveragePool", (0.01, 128), kernel_shape=[3, 3]),
    "GlobalAveragePool": unary("GlobalAveragePool", (0.02, 128)),
    "GlobalMaxPool": unary("GlobalMaxPool"),
    "ReduceMean": numbers("ReduceMean", ints(2, 3)),
    "ReduceMax": numbers("ReduceMax", ints(1)),
    "Reshape": numbers("Reshape", ints(4, -1)),
    "Flatten": unary("Flatten"),
    "Squeeze": numbers("Squeeze", ints(0)),
    "Unsqueeze": numbers("Unsqueeze", ints(0), out=X),
    "Transpose": unary("Transpose", perm=[0, 2, 3, 1]),
    "Pad": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2)),
    "Slice": numbers("Slice", ints(1, 0), ints(3, 5), ints(2, 3)),
    "Gather": numbers("Gather", ints(2, 0), axis=1),
    "DepthToSpace": unary("DepthToSpace", blocksize=2),
    "SpaceToDepth": unary("SpaceToDepth", blocksize=2),
    "Tile": numbers("Tile", ints(1, 1, 2, 1)),
    "Resize nearest": numbers(
        "Resize",
        np.zeros(0, np.float32),
        np.float32([1, 1, 2, 2]),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "Resize linear": numbers(
        "Resize",
        np.zeros(0, np.float32),
        np.float32([1, 1, 2, 2]),
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    ),
    "Exp": unary("Exp", (0.5, 0)),
    "InstanceNormalization": numbers(
        "InstanceNormalization", np.float32([1, 2, 0.5, 1]), np.float32([0, 1, -0.5, 0.2])
    ),
    "LayerNormalization": numbers("LayerNormalization", np.ones(6, np.float32)),
    "BatchNormalization": numbers(
        "BatchNormalization", *(np.float32([1, 2, 0.5, 1]) for _ in range(4))
    ),
    "Pad with a number": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), np.float32(1.3)),
    "Pad with a stored number": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), np.float32(1.25)),
    "Pad beyond the range": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), np.float32(-99)),
    "Pad reflected": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), mode="reflect"),
    "Slice backwards": numbers("Slice", ints(5), ints(0), ints(2), ints(-2)),
    "Expand": numbers("Expand", ints(2, 4, 6, 6)),
    "Clip above": numbers("Clip", np.float32(-3e38), np.float32(1)),
    "Clip below": numbers("Clip", np.float32(0.3)),
    "ReduceSum": numbers("ReduceSum", ints(2, 3), out=(0.3, 128)),
    **{o: unary(o) for o in ("Erf", "Gelu", "Mish", "Selu", "Softplus", "Floor", "Abs", "Neg")},
    "LRN": unary("LRN", size=3),
    "LpNormalization": unary("LpNormalization", (1 / 100, 128), axis=1),
}
