"""QDQ models: built group by group, cut into layers, and compared in output quanta."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

import ep_nnapi
from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.onnx_graph import model_of, typed
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
    ins = {n: typed(*given) for n, given in inputs.items()}
    outs, domains = {n: typed(t) for n, t in outputs.items()}, {"com.microsoft": 1}
    return model_of(nodes, ins, outs, constants, opset, ir_version=10, domains=domains)


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
    """Outputs of a session on the provider, whose clusters all compile and compute.

    Nodes on the CPU have no fused kernels either: with these, ONNX Runtime 1.31 fails to load some
    graphs of INT8 with opset 21.
    """
    chosen = plain_cpu()
    ep_nnapi.append_execution_provider(chosen, **options)
    session = ort.InferenceSession(model.SerializeToString(), chosen)
    found = session.run(None, dict(feeds))
    assert not [f for cluster in ep_nnapi.receipts()[-1]["clusters"] for f in cluster["fallbacks"]]
    return found


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
