"""Control flow: IF and WHILE as ONNX's If and Loop.

The outputs of both branches have the same shapes. Tensors keep their ranks in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, TensorProto, ValueInfoProto, helper

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.shapes import Dims
from ep_nnapi.ort_devices.graph import OnnxGraph
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import Inexpressible, is_coded, require


def if_(op: Op) -> None:
    """Runs one of two models. Source: NDK ANEURALNETWORKS_IF."""
    given = [op.scope.value(i, real=False) for i in op.indexes("inputs")]
    condition = _flag(op.scope.graph, op.stored("condition"))
    outputs = op.indexes("outputs")
    branches = {
        f"{which}_branch": _branch(op, _model(op, f"{which}_model"), given)
        for which in ("then", "else")
    }
    names = op.scope.graph.many("If", len(outputs), condition, **branches)
    for index, name in zip(outputs, names, strict=True):
        op.scope.define(index, name, real=False)


def _branch(op: Op, model: Model, given: Sequence[str]) -> GraphProto:
    """A subgraph without inputs, which reads the values of the graph around it."""
    graph, outputs = OnnxGraph(op.scope.graph), op.indexes("outputs")
    inner = op.inline(model, graph, given, [op.scope.shape(i) for i in op.indexes("inputs")])
    require(inner.dims == [op.scope.dims.get(i) for i in outputs], "a branch has another shape")
    identities = [graph.node("Identity", name) for name in inner.values]
    ends = zip(outputs, identities, _shapes(op, outputs), strict=True)
    return graph.proto([], [_declared(op, *each) for each in ends])


def while_(op: Op) -> None:
    """Runs a model while another one says so; constant inputs are read from the graph around it.

    Source: NDK ANEURALNETWORKS_WHILE.
    """
    condition, body = _model(op, "condition_model"), _model(op, "body_model")
    inputs = op.indexes("inputs")
    carried = inputs[: len(body.outputs)]
    start = [op.scope.value(i, real=False) for i in inputs]
    rest = start[len(carried) :]
    outer = op.scope.graph
    first = _flag(outer, *op.inline(condition, outer, start, _shapes(op, inputs)).values)
    graph, state, after, dims = _round(op, body, rest)
    again = op.inline(condition, graph, [*after, *rest], dims)
    identities = [graph.node("Identity", name) for name in after]
    going = _flag(graph, *again.values)
    counter_and_condition = (TensorProto.INT64, TensorProto.BOOL)
    proto = graph.proto(
        [
            *(helper.make_tensor_value_info(graph.name(), t, ()) for t in counter_and_condition),
            *(_declared(op, *each) for each in zip(carried, state, dims, strict=False)),
        ],
        [
            helper.make_tensor_value_info(going, TensorProto.BOOL, ()),
            *(_declared(op, *each) for each in zip(carried, identities, dims, strict=False)),
        ],
    )
    names = outer.many("Loop", len(carried), "", first, *start[: len(carried)], body=proto)
    for index, name, found in zip(op.indexes("outputs"), names, dims, strict=False):
        _leave(op, index, name, found)


def _shapes(op: Op, indexes: Sequence[int]) -> list[Dims]:
    return [op.scope.shape(i) for i in indexes]


def _round(
    op: Op, body: Model, rest: Sequence[str]
) -> tuple[OnnxGraph, list[str], list[str], list[Dims]]:
    """One round of a loop: its graph, the state before and after it, and the loop's sizes.

    rest   values of the inputs that no round changes
    Sizes that the body changes are unknown. Each attempt finds at least one more of them.
    """
    dims: list[Dims] = [*_shapes(op, op.indexes("inputs"))]
    count = len(body.outputs)
    while True:
        graph = OnnxGraph(op.scope.graph)
        state = [graph.name() for _ in range(count)]
        after = op.inline(body, graph, [*state, *rest], dims)
        found = [*map(_common, dims, after.dims), *dims[count:]]
        if found == dims:
            return graph, state, after.values, dims
        dims = found


def _common(before: Dims, after: Dims | None) -> Dims:
    """The sizes that a round does not change; None for the others."""
    if after is None or len(before) != len(after):
        raise Inexpressible("a tensor changes its rank in the loop")
    return tuple(a if a == b else None for a, b in zip(before, after, strict=True))


def _leave(op: Op, index: int, value: str, found: Dims) -> None:
    """Define an output of a loop; a run fails if it has other sizes than those declared."""
    declared = op.scope.dims.setdefault(index, found)
    require(len(declared) == len(found), "a tensor changes its rank in the loop")
    if declared != found and None not in declared:
        require(None in found, "the result of the loop has another shape than its output")
        require(found.count(None) == 1, "a tensor changes several of its sizes in the loop")
        value = op.reshape(value, [size or 0 for size in declared])
    op.scope.define(index, value, real=False)


def _model(op: Op, name: str) -> Model:
    """The model that an operand holds."""
    value = op.operand(name).value
    if not isinstance(value, Model):
        raise Inexpressible(f"operand {name} is no model")
    return value


def _flag(graph: OnnxGraph, value: str) -> str:
    """A condition, stored as BOOL8 [1], as ONNX takes it: of rank 0."""
    return graph.reshape(value, ())


def _declared(op: Op, index: int, name: str, dims: Dims) -> ValueInfoProto:
    """The declaration of a subgraph's value that has the type of an operand."""
    operand = op.scope.operand(index)
    dtype = np.dtype(np.float32) if operand.type.numpy.kind == "f" else operand.type.numpy
    if is_coded(operand):
        dtype = np.dtype(np.uint8)
    code = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, code, dims)


ROWS = (row(spec.IF, if_), row(spec.WHILE, while_))
