"""Sample shapes of node outputs with data-dependent shapes, some of them found by trial runs.

They serve to check the capability of nodes downstream, which are compiled for the actual shapes of
each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import onnx.defs

from ep_nnapi.graph.dag import bytes_of, inputs_of, outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.to_onnx import model_of
from ep_nnapi.graph.value import Array, DType, Value
from ep_nnapi.sessions.cpu import exact_options, session_of
from ep_nnapi.sizes.inference import is_sized

_MAX_INPUT_BYTES = 1 << 26
"""Maximum total bytes of a trial run's inputs: enough for a model's image or table input."""

RunCache: TypeAlias = dict[tuple[int, tuple[object, ...]], tuple[tuple[int, ...], ...]]


@dataclass(frozen=True, slots=True)
class Assumption:
    """Assigns sample shapes to a node's outputs.

    size    the size of each unknown dimension of an output of known rank
    opsets  opset versions of the graph
    runs    cache of trial runs: output shapes by node id and input shapes; shared
    """

    size: int
    opsets: Mapping[str, int]
    runs: RunCache = field(default_factory=dict)

    def __call__(self, node: GraphNode) -> Sequence[Value]:
        """The outputs with sample shapes, of a trial run if a rank is unknown and it succeeds."""
        outputs = outputs_of(node)
        if any(v.dims is None for v in outputs) and _can_run(node):
            key = (node.id, tuple(v.dims for v in inputs_of(node)))
            if key not in self.runs:
                self.runs[key] = _trial_run(node, self.opsets)
            if self.runs[key]:
                pairs = zip(outputs, self.runs[key], strict=True)
                return [replace(v, dims=dims) for v, dims in pairs]
        return [self._with_sample_size(v) for v in outputs]

    def _with_sample_size(self, value: Value) -> Value:
        if value.dims is None:
            return value
        dims = tuple(d if isinstance(d, int) else self.size for d in value.dims)
        return replace(value, dims=dims)


def _can_run(node: GraphNode) -> bool:
    """True if all inputs have static shapes and numpy types, and no subgraph reads outer values."""
    inputs = inputs_of(node)
    if node.implicit or not all(map(is_sized, inputs)) or _lacks_inputs(node):
        return False
    known = all(v.dtype.readable for v in inputs)
    tensors = all(v.dtype is not DType.UNDEFINED for v in outputs_of(node))
    return known and tensors and sum(map(bytes_of, inputs)) <= _MAX_INPUT_BYTES


def _lacks_inputs(node: GraphNode) -> bool:
    """True if an input is omitted that is not optional: ONNX Runtime's kernels may read it."""
    omitted = [i for i, value in enumerate(node.inputs) if value is None]
    if not omitted:
        return False
    try:
        inputs = onnx.defs.get_schema(node.op_type, node.since, node.domain).inputs
    except onnx.defs.SchemaError:
        return True
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    return any(i >= len(inputs) or inputs[i].option != optional for i in omitted)


def _trial_run(node: GraphNode, opsets: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Runs the node on the CPU provider on ones; returns the output shapes, () on failure.

    Ones avoid division by zero and most indices out of range.
    """
    inputs, outputs = inputs_of(node), outputs_of(node)
    options = exact_options()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        plain = replace(node, inputs=tuple(v and _as_input(v) for v in node.inputs))
        model = model_of([plain], [_as_input(v) for v in inputs], outputs, opsets)
        session = session_of(model.SerializeToString(), options)
        results = session.run([v.name for v in outputs], {v.name: _sample(v) for v in inputs})
    except Exception:  # unknown operator or invalid sizes; ONNX Runtime's errors have no base class
        return ()
    return tuple(np.shape(r) for r in results)


def _sample(value: Value) -> Array:
    """The value's folded elements if known, else ones."""
    if value.constant is not None:
        return value.constant.array
    return np.ones(value.shape, value.dtype.numpy)


def _as_input(value: Value) -> Value:
    """The value as a model input instead of a folded constant."""
    return replace(value, constant=None) if value.folded else value
