"""High-precision reference outputs of a model, for judging NNAPI and the CPU provider.

Computed in float64 where the CPU provider has float64 kernels, else in float32, and without
rounding of quantized values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import GraphOptimizationLevel

from ep_nnapi.diagnostics.float64_decomposition import (
    DECOMPOSITIONS,
    QUANTIZED_TYPES,
    Float64Graph,
    NoDecomposition,
)
from ep_nnapi.diagnostics.inputs import NUMPY_TYPES
from ep_nnapi.diagnostics.output_traits import from_ort
from ep_nnapi.diagnostics.verdict import ReferenceOutputs, Runs
from ep_nnapi.graph.onnx_io import Loadable, all_nodes, inner_graphs, read_model, replace_all
from ep_nnapi.nnapi.array import Array
from ep_nnapi.sessions.cpu import quiet_options, session_of

_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE))
_MISSING_KERNEL = re.compile(
    r"implementation for (\w+)\(|operator \((\w+)\)|Optype \((\w+)\)|"
    r"(\w+) operator does not support"
)
"""Matches ONNX Runtime errors that name an operator without float64 kernel or type support."""


def reference_outputs(
    model: Loadable, runs: Sequence[Mapping[str, Array]]
) -> ReferenceOutputs | None:
    """Returns high-precision outputs of each run; None if they cannot be computed.

    Not supported: models with functions, quantized values that a Loop or Scan carries or that an If
    returns, and some contrib operators.
    """
    try:
        proto = read_model(model) or from_ort(model)
        if proto is None or proto.functions:
            return None
        if any(inner_graphs(node) for node in proto.graph.node):
            proto = onnx.shape_inference.infer_shapes(proto)  # the types of values inside
        found, float32_operators = _computed(proto, runs)
    except Exception:  # rewritten graphs can fail in ONNX and in ONNX Runtime in any way
        return None
    quantized = any(node.op_type in DECOMPOSITIONS for node in all_nodes(proto.graph))
    described = "the model's formula without rounding to steps" if quantized else "float64"
    narrow = ", ".join(sorted(float32_operators))
    also = f", {narrow} in float32" if narrow and not quantized else ""
    return ReferenceOutputs(found, f"{described}{also}")


def _computed(proto: onnx.ModelProto, runs: Sequence[Mapping[str, Array]]) -> tuple[Runs, set[str]]:
    """Returns the outputs of each run, and the types of operators computed in float32."""
    types, ranks = _types_and_ranks(proto)
    float32_operators: set[str] = set()
    while True:
        graph = Float64Graph(dict(types), dict(ranks))
        converted = _Float64Rewriter(graph, float32_operators).model(proto)
        options = quiet_options(GraphOptimizationLevel.ORT_ENABLE_BASIC)
        try:
            session = session_of(converted.SerializeToString(), options)
            return [_outputs(session, feeds) for feeds in runs], float32_operators
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            found = _MISSING_KERNEL.search(str(error))
            missing = next((g for g in found.groups() if g), "") if found else ""
            if not missing or missing in float32_operators:
                raise
            float32_operators.add(missing)


def _outputs(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, Array]
) -> Mapping[str, Array]:
    wanted = {i.name for i in session.get_inputs() if i.type == "tensor(double)"}
    given = {n: a.astype(np.float64) if n in wanted else a for n, a in feeds.items()}
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def _types_and_ranks(proto: onnx.ModelProto) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the element type and the rank of each value, as inferred by ONNX Runtime."""
    seen = deepcopy(proto)
    have = {o.name for o in seen.graph.output}
    for node in seen.graph.node:
        names = (n for n in node.output if n and n not in have)
        seen.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    options = quiet_options(GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = session_of(seen.SerializeToString(), options)
    values = [*session.get_inputs(), *session.get_outputs()]
    dtypes = {v.name: NUMPY_TYPES[v.type] for v in values if v.type in NUMPY_TYPES}
    types = {name: int(helper.np_dtype_to_tensor_dtype(dtype)) for name, dtype in dtypes.items()}
    ranks = {v.name: len(v.shape) for v in values}
    tensors = proto.graph.initializer
    types |= {t.name: t.data_type for t in tensors}
    return types, ranks | {t.name: len(t.dims) for t in tensors}


@dataclass(frozen=True, slots=True)
class _Float64Rewriter:
    """Rewrites a model to float64, except for `float32_operators`."""

    graph: Float64Graph
    float32_operators: set[str]

    def model(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """Returns the rewritten model."""
        copied = deepcopy(proto)
        self._rewrite(copied.graph)
        copied.graph.initializer.extend(self.graph.tensors)
        return copied

    def _rewrite(self, graph: onnx.GraphProto) -> None:
        """Rewrites a graph in place; a graph inside may read the values around it."""
        around, self.graph.nodes = self.graph.nodes, []
        for node in graph.node:
            self._node(node)
        del graph.value_info[:]
        replace_all(graph.node, self.graph.nodes)
        replace_all(graph.initializer, map(_float64_tensor, graph.initializer))
        replace_all(graph.output, [onnx.ValueInfoProto(name=o.name) for o in graph.output])
        for value in graph.input:
            if value.type.tensor_type.elem_type in _FLOATS:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        self.graph.nodes = around

    def _node(self, node: onnx.NodeProto) -> None:
        if node.op_type in DECOMPOSITIONS:
            DECOMPOSITIONS[node.op_type](self.graph, node)
        elif inner_graphs(node):
            self._with_graphs(node)
        elif node.op_type == "Cast":
            self._cast(node)
        elif node.op_type in self.float32_operators:
            inputs = [i for i, n in enumerate(node.input) if n and self._is_float64(n)]
            outputs = [i for i, n in enumerate(node.output) if n and self._becomes_float64(node, n)]
            self.graph.add_in_float32(deepcopy(node), inputs, outputs)
        else:
            self._convert(node)

    def _with_graphs(self, node: onnx.NodeProto) -> None:
        """Adds a node whose bodies or branches are in float64 too."""
        copied = deepcopy(node)
        outside = set(self.graph.float64_names)
        for inner in inner_graphs(copied):
            named = [*inner.input, *inner.value_info, *inner.output]
            self.graph.types.update((v.name, v.type.tensor_type.elem_type) for v in named)
            self.graph.ranks.update((v.name, len(v.type.tensor_type.shape.dim)) for v in named)
            self.graph.types.update((t.name, t.data_type) for t in inner.initializer)
            self.graph.ranks.update((t.name, len(t.dims)) for t in inner.initializer)
            self._rewrite(inner)
            crossing = {*node.input, *(o.name for o in inner.output)} & self.graph.float64_names
            if crossing:
                raise NoDecomposition(f"{node.op_type} of quantized numbers")
            self.graph.float64_names = set(outside)  # the other branch has names of its own
        self.graph.nodes.append(copied)

    def _is_float64(self, name: str) -> bool:
        return name in self.graph.float64_names or self.graph.types.get(name) in _FLOATS

    def _cast(self, node: onnx.NodeProto) -> None:
        to = next(a.i for a in node.attribute if a.name == "to")
        stays = node.input[0] in self.graph.float64_names and to in QUANTIZED_TYPES
        if not stays and to not in _FLOATS:
            self.graph.nodes.append(node)
            return
        self.graph.cast(self.graph.in_float64(node.input[0]), TensorProto.DOUBLE, node.output[0])
        if stays:
            self.graph.float64_names.add(node.output[0])

    def _becomes_float64(self, node: onnx.NodeProto, output: str) -> bool:
        """Returns True if an output is float64 in the new graph; updates `float64_names`."""
        kind = self.graph.types.get(output, 0)
        if kind in QUANTIZED_TYPES and any(
            n in self.graph.float64_names and self.graph.types.get(n) == kind for n in node.input
        ):
            self.graph.float64_names.add(output)
        return self._is_float64(output)

    def _convert(self, node: onnx.NodeProto) -> None:
        """Adds the node in float64; it also processes quantized values in their float64 version."""
        copied = deepcopy(node)
        kinds = {self.graph.types.get(n) for n in node.input if n in self.graph.float64_names}
        for i, name in enumerate(node.input):
            if self.graph.types.get(name) in kinds & QUANTIZED_TYPES:
                copied.input[i] = self.graph.in_float64(name)
        replace_all(copied.attribute, map(_float64_attribute, node.attribute))
        for output in node.output:
            self._becomes_float64(node, output)
        self.graph.nodes.append(copied)


def _float64_tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type not in _FLOATS:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def _float64_attribute(given: onnx.AttributeProto) -> onnx.AttributeProto:
    """Returns the attribute, with a float output type or float output data changed to float64."""
    if given.name == "dtype" and given.i in _FLOATS:
        return helper.make_attribute("dtype", TensorProto.DOUBLE)
    if given.name == "value" and given.HasField("t"):
        return helper.make_attribute("value", _float64_tensor(given.t))
    if given.name in ("value_float", "value_floats"):
        numbers = given.f if given.name == "value_float" else list(given.floats)
        return helper.make_attribute(
            "value", numpy_helper.from_array(np.array(numbers, np.float64))
        )
    return given
